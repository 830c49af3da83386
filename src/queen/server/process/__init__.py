"""One host: bind the port, supervise worker processes, check settings."""

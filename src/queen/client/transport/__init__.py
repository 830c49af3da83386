"""Send requests to one of several servers over HTTP."""

"""Commands that read or change queues, messages and jobs on a server."""

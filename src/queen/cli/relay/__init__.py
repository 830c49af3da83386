"""Move messages from an application's outbox to a server."""

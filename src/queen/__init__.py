"""Queen, a message queue and job queue on PostgreSQL."""

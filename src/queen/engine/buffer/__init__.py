"""The file buffer: pushes accepted on disk while the database is unavailable, replayed later."""

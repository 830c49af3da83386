"""Maintenance of the database: one background task per file, each run by one process at a time."""

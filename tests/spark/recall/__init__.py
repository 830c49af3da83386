"""Archived messages return to the log."""

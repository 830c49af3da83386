"""Tests of the file buffer, which accepts pushes while PostgreSQL is unavailable."""

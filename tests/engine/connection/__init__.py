"""Tests of connections to PostgreSQL: hosts, deadlines and failures."""

"""Tests of the engine on a real PostgreSQL."""

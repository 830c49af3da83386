"""Tests of parts of the command that need no server."""

"""Tests of the HTTP API against server processes."""

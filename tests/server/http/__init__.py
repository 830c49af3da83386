"""Tests of the HTTP protocol: framing, limits, documents and static files."""

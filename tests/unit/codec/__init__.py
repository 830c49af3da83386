"""Tests of IDs, payloads, segments and encryption."""

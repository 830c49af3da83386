"""Tests of the SDK against a real server."""

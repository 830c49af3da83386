"""Tests of permissions, connection limits and decoding."""

"""Tests of the translation of payloads to columns."""

"""Tests that messages from any source are stored once and in order."""

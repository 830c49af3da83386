"""Tests of reading and redacting messages without consuming them."""

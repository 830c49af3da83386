"""Tests of the admin API, and of masked payloads."""

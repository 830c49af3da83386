"""Tests of counters and samples."""

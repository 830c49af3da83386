"""Tests of pushes: checks, deduplication, producers and queue limits."""

"""Tests of the batcher, and of notifications between processes."""

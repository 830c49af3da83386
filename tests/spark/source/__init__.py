"""Tests of reading queues as DataFrames and streams."""

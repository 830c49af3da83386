"""Tests of writing DataFrames and streams to queues."""

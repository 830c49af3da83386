"""Tests of the calls with which Spark pipelines read and write."""

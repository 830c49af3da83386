"""Tests of consumers: pops, handlers, threads and acknowledgments."""

"""Tests of server processes: start, stop, outages and maintenance."""

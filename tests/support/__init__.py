"""Servers, databases and clocks that tests and benchmarks use."""

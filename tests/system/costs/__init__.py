"""Tests of the cost of waiting clients and of malformed requests."""

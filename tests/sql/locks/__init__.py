"""Tests of the lock order, and of pops that wait for no lock."""

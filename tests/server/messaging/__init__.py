"""Tests of push, pop, ack, leases and transactions."""

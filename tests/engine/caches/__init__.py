"""Tests of the cache of queues and their options."""

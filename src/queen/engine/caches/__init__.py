"""Bounded caches of queues, partitions and recent segments."""

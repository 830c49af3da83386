"""Limits of spread queues, divided among databases."""

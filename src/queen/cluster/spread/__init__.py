"""Queues that are in several databases."""

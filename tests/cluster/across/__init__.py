"""Transactions whose queues are in several databases."""

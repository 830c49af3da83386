"""Spark reads queues of several databases while their slots move."""

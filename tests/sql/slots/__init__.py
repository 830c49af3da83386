"""Slots: where queues are placed, and the fence of moves."""

"""Pushes without a caller: the outbox, schedules and workflows."""

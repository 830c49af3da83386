"""Tests of pushes without a caller: the outbox, schedules and workflows."""

"""Tests of queues and their options, groups, operations and background tasks."""

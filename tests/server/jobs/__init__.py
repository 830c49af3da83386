"""Tests of jobs, their results, schedules and workflows."""

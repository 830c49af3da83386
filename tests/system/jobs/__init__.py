"""Tests of workers, schedules and workflows whose processes are killed."""

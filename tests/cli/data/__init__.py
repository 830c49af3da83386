"""Tests of commands that read or change queues, messages and jobs."""

"""Tests of cron ticks, time ranges and buffered records."""

"""Tests of configure, seek, pause, purge and delete."""

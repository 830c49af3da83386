"""Tests of acknowledgments, retries and dead letters."""

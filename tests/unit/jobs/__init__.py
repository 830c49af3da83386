"""Tests of job options, workers and autoscaling."""

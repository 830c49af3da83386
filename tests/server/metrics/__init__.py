"""Tests of metrics, analytics and reports."""

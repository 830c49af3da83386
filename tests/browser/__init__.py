"""Tests of the dashboard in Chromium."""

"""Tests of workflows: steps, signals, lost steps, cancel and retry."""

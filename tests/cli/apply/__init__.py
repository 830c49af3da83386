"""Tests of `queen apply` and `queen diff`."""

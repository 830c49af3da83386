"""Tests of the workflow rules, with a model of them."""

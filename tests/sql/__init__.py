"""Tests of the rules that the SQL guarantees, each in its own database."""

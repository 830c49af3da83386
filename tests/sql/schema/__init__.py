"""Tests of migrations, tables, functions and views."""

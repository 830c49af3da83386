"""Tests of commands for developers and operators: start, check, measure, migrate."""

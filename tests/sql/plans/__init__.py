"""Tests of query plans, and of the pages and rows that calls read and write."""

"""Tests of lakes, which commit each batch once."""

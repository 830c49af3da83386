"""Tests of waiting pops, and of the events that wake them."""

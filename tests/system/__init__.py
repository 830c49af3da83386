"""Tests of whole processes on loopback: loss, kills and idle cost, checked from outside."""

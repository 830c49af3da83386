"""Processes on loopback: loss, kills and idleness, judged from outside."""

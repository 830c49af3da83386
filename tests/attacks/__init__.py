"""Attacks on a real server. The tests measure its latency and memory during each attack."""

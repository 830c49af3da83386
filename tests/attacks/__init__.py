"""Attacks on a real server: each test watches the server's latency and memory meanwhile."""

"""Many requests, few transactions."""

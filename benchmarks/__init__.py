"""Scenarios that measure Queen; each module is one and runs by `python -m`."""

"""Diagnostics and checks of a restored database."""

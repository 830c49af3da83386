"""Requests of a server with several databases."""

"""Databases and slots."""

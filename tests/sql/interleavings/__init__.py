"""Tests that step through the transactions of several connections in every order."""

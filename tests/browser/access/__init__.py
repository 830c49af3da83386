"""Tests of sign-in, permissions, API keys and masked payloads."""

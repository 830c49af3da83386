"""Tests of authentication, permissions, scopes and secrets."""

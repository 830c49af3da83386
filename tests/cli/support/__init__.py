"""Tests of behavior that all commands share: contexts, output, help, exit codes."""

"""Tests of pushes: client-side buffers and the outbox."""

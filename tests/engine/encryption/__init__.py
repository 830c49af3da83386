"""Tests of encrypted queues and of the rotation of master keys."""

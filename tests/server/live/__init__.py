"""Tests of the dashboard's WebSocket feed."""

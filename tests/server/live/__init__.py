"""Tests of the WebSocket feed of the dashboard."""

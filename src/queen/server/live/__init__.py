"""The WebSocket feed of the dashboard."""

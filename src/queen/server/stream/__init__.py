"""Streams: WebSockets on which clients push, receive and acknowledge messages."""

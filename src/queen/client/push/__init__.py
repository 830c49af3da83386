"""Push messages, directly or through a client-side buffer."""

"""The format of stored bytes, as pure functions."""

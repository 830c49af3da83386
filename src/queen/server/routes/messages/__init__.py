"""Routes of single messages."""

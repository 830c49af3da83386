"""Authentication and permissions. Knows nothing of HTTP calls."""

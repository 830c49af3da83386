"""Authentication and permissions, independent of HTTP calls."""

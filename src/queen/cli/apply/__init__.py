"""Configuration as code: read a manifest, compare it with a server, and apply the difference."""

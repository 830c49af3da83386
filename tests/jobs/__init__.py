"""Jobs against a real server."""

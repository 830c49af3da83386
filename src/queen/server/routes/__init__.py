"""The routes, a noun a file."""

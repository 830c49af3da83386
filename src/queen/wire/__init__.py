"""The structs of HTTP requests and responses."""

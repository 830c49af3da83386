"""How the engine behaves, on a real PostgreSQL."""

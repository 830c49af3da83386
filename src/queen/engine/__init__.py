"""The engine, which combines many requests into few transactions."""

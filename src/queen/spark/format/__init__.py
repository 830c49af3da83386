"""The Spark format ``queen``: batch and streaming reads, and writes."""

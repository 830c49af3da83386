"""The log of a queue as Arrow columns: read from PostgreSQL, and staged in it. Without Spark."""

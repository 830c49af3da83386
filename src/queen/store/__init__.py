"""One PostgreSQL database: arrays in, rows out."""

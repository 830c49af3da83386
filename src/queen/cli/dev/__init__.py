"""A local PostgreSQL and demo data for `queen dev`."""

"""Pure functions: no database, less than two seconds in total."""

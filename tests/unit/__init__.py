"""Pure functions: no database, and less than two seconds in all."""

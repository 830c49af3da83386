"""The rules that the SQL keeps, each test in a database of its own."""

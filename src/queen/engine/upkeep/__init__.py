"""What keeps a database in shape: a duty a file, each done by one process at a time."""

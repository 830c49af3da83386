"""Load for `queen bench`."""

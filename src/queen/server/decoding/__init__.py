"""Decode JSON to structs, with bounded work and memory and a pointer to each error."""

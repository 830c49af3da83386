"""The structs that cross HTTP."""

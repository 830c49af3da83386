"""The checker of histories, and its own tests."""

"""Stored bytes, as pure functions: the engine writes them, others read them too."""

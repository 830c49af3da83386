"""Stored bytes, as pure functions: the engine writes them, and other readers of the log read them too."""

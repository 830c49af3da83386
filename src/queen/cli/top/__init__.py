"""The screen of `queen top`."""

"""Define workflows and follow their runs."""

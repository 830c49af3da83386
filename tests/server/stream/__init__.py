"""The stream: its operations, its limits, and hostile frames."""

"""Random programs on several databases whose slots move, join, leave and fail."""

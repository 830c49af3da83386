"""Read messages without consuming them: browse, search, show and redact."""

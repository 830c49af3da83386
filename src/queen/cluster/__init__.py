"""Several databases as one queue: which one a request needs, and requests that need several."""

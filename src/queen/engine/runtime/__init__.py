"""Building blocks for concurrency: batching, periodic tasks and yielding to the event loop."""

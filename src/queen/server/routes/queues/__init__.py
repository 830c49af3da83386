"""Routes of queues, and of all queues together."""

"""Pop messages, keep their leases, call handlers and acknowledge."""

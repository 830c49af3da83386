"""Pop: claim positions for waiting consumers, read the messages, and build deliveries."""

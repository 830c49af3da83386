"""The admin API: queues, groups, dead letters, API keys, analytics."""

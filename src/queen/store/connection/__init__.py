"""Connections to PostgreSQL: options, failover to the primary, statements and notifications."""

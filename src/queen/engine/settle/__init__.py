"""Acknowledge, retry, release and extend deliveries, and publish their outcomes."""

"""Wraps every call: metrics and logs, tracing, the audit log and the response cache."""

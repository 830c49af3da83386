"""Wrappers of every call: metrics and logs, tracing, the audit log, the response cache."""

"""Tests of the audit log, logs, tracing and the response cache."""

"""Tests of processes that use the SDK: failover, kills and stops."""

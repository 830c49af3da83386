"""Tests of requests to servers: failover, proxies, TLS and long polls."""

"""Tests of routes that read or change stored messages: browse, reveal, dead letters, traces."""

"""Tests of pops: order, groups, leases, delays and limits."""

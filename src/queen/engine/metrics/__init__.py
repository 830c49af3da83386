"""Counters, samples and the time series built from them."""

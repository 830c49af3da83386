"""Metrics of requests and jobs, summed over the processes of one host."""

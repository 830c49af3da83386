"""Run jobs in one process: fetch, execute, renew leases, acknowledge."""

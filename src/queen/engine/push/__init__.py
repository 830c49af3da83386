"""Push: check items, group them by partition, and write one segment per partition."""

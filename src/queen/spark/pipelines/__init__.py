"""Spark pipelines, one per module: each has a `Config` and a `run(spark, config)`."""

"""Jobs on Spark, one a file: each a `Config` and a `run(spark, config)`."""

"""
Import the modules of Spark's workers in the daemon from which they are forked.

Spark starts a Python process for each step of a source or sink. In each of them, the same imports
take most of a second, longer than the rest of a small query. Python runs this file first in every
process that has this directory on its path.
"""

import importlib
import sys

MODULES = (
    "pyspark.sql.worker.commit_data_source_write",
    "pyspark.sql.worker.create_data_source",
    "pyspark.sql.worker.plan_data_source_read",
    "pyspark.sql.worker.python_streaming_sink_runner",
    "pyspark.sql.worker.write_into_data_source",
    "pyspark.sql.streaming.python_streaming_source_runner",
    "pyspark.worker",
    "adbc_driver_postgresql.dbapi",
    "queen.spark.format.source",
)

ONCE = "pyspark.sql.worker.lookup_data_sources"
"""Spark runs it once when a session starts, so it imports its own modules."""

if "pyspark.daemon" in sys.orig_argv and ONCE not in sys.orig_argv:
    for name in MODULES:
        importlib.import_module(name)

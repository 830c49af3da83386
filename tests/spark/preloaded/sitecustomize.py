"""
What Spark's workers import is imported by the daemon that they are forks of.

Spark starts a process of Python for each step of a source or sink, and in each the same modules
take most of a second: most of what a small query costs. Python runs this file first in every
process that has this folder on its path.
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
    "queen.spark.source",
)

ONCE = "pyspark.sql.worker.lookup_data_sources"
"""When a session starts; what it needs it imports itself."""

if "pyspark.daemon" in sys.orig_argv and ONCE not in sys.orig_argv:
    for name in MODULES:
        importlib.import_module(name)

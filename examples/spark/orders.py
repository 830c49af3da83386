"""
From a queue to a chart and back, in the cells of a notebook.

Needs ``queenmq[pyspark]``, matplotlib and DATABASE_URL. Run it as a script, or cell by cell.
"""

# %% A session, and the format `queen`
import os
import sys
import tempfile
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from pyspark.sql import SparkSession, functions as F

from queen.spark import register

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
spark = SparkSession.builder.master("local[2]").appName("orders").getOrCreate()
spark.sparkContext.setLogLevel("ERROR")
register(spark)

# %% Write some orders as a DataFrame: to_json creates the payload
orders = spark.range(5_000).select(
    F.format_string("shop-%d", F.col("id") % 4).alias("partition"),
    F.to_json(
        F.struct(
            F.col("id").alias("order"),
            (F.col("id") % 97 + F.col("id") % 4 * 20).cast("double").alias("amount"),
        )
    ).alias("payload"),
)
orders.write.format("queen").option("queue", "orders").mode("append").save()

# %% Read the queue, with payloads parsed by their schema
read = (
    spark.read.format("queen")
    .option("queue", "orders")
    .option("columns", "partition,offset,payload")
    .option("schema", "order bigint, amount double")
    .load()
)
by_shop = (
    read.groupBy(F.col("partition").alias("shop"))
    .agg(F.count("*").alias("orders"), F.round(F.sum("payload.amount"), 2).alias("revenue"))
    .orderBy("shop")
)
by_shop.show()

# %% Plot it
chart = Path(os.environ.get("CHART", tempfile.gettempdir())) / "orders.png"
totals = by_shop.toPandas()
axes = totals.plot.bar(x="shop", y="revenue", legend=False, title="Revenue by shop", rot=0)
axes.set_xlabel("")
plt.tight_layout()
plt.savefig(chart)
print(f"the chart is {chart}")

# %% Write one message per shop back, to the queue `revenue`
by_shop.select(
    F.col("shop").alias("partition"),
    F.to_json(F.struct("shop", "orders", "revenue")).alias("payload"),
).write.format("queen").option("queue", "revenue").mode("append").save()

# %% Show the results
assert totals["orders"].sum() == read.count()
back = spark.read.format("queen").option("queue", "revenue").load()
assert {row["partition"] for row in back.collect()} == set(totals["shop"])
print(f"{read.count()} orders of {len(totals)} shops")
spark.stop()

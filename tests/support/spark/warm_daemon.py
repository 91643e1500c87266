"""Spark's daemon of Python workers, with what workers of ours import already there: each of them is a fork of it.

A worker of Spark's own daemon imports PySpark, Arrow and our packages anew: a second of CPU, three times a query.
``warm_python.sh`` starts it in place of ``pyspark.daemon``.
"""

from __future__ import annotations

import gc
import importlib
import pkgutil
import runpy

from pyspark.sql import worker

OURS = (
    "sparkhaven.jobs.dataframes.source",
    "sparkhaven.jobs.dataframes.source_writers",
    "sparkhaven.readers.spark.batch",
)
ARROW = ("pyarrow.compute", "pyarrow.parquet")
SPARKS = ("pyspark.worker", *(f"{worker.__name__}.{module.name}" for module in pkgutil.iter_modules(worker.__path__)))

if __name__ == "__main__":
    for name in (*ARROW, *SPARKS, *OURS):
        importlib.import_module(name)
    gc.freeze()
    runpy.run_module("pyspark.daemon", run_name="__main__", alter_sys=True)

"""Spark's daemon of Python workers, with what Spark imports already there: each of them is a fork of it.

A worker of Spark's own daemon imports PySpark and Arrow anew, three times a query. ``warm_python.sh`` starts this one
where no server of ``warm_forks.py`` runs: for workers that have our packages from elsewhere, as from a zip.
"""

from __future__ import annotations

import gc
import importlib
import pkgutil
import runpy
import sys

from pyspark.sql import worker

SPARKS = (
    "pyarrow.compute",
    "pyarrow.parquet",
    "pandas",
    "pyspark.worker",
    *(f"{worker.__name__}.{module.name}" for module in pkgutil.iter_modules(worker.__path__)),
)

if __name__ == "__main__":
    del sys.path[0]  # the directory of this file
    for name in SPARKS:
        importlib.import_module(name)
    gc.freeze()
    runpy.run_module("pyspark.daemon", run_name="__main__", alter_sys=True)

"""How an error of ours reaches the user of Spark: its message first, not the traceback of a Python process of Spark."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from sparkhaven.store.errors import SparkhavenError

HIDE = "SPARK_HIDE_TRACEBACK"  # of PySpark, which `spark.sql.execution.pyspark.udf.hideTraceback.enabled` sets


@contextmanager
def message_first() -> Iterator[None]:
    """Around what Spark calls in its own processes, as ``with`` or decorator: errors of ours lose their traceback.

    Such a process ends with the error, so nothing else that runs in it is affected. Elsewhere it changes nothing.
    """
    try:
        yield
    except SparkhavenError:
        if _is_sparks():
            os.environ[HIDE] = "1"
        raise


def _is_sparks() -> bool:
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return spec is not None and spec.name.startswith("pyspark.")

"""A streaming query with ``format("deephaven")``: ``python -m tests.support.spark.write_job FEED ROOT CHECKPOINT``."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import sparkhaven
from tests.support.spark.data_source import options
from tests.support.spark.frames import source
from tests.support.spark.stream_job import session

if __name__ == "__main__":
    feed, root, checkpoint = map(Path, sys.argv[1:4])
    spark = session(delta=False)
    sparkhaven.register(spark)
    given = {name: text for name, text in options(root).items() if name != "path"}
    stream = source(spark, feed, placed=False).writeStream.format("deephaven").options(**given)
    table = options(root)["path"]
    stream.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start(table).awaitTermination()
    os._exit(0)  # the JVM ends with its parent; a tidy stop takes seconds

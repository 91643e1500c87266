"""Whether what a path has written is what was fed: every column of every row, in the order of ``id``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from benchmarks.feeds.trades import trades
from sparkhaven.readers import open_table


def require_equal(name: str, read: pa.Table, total: int) -> None:
    """SystemExit unless the table has the rows with the first ``total`` ids, and nothing else."""
    if read.num_rows != total:
        raise SystemExit(f"{name}: {read.num_rows:,} rows were written, {total:,} were fed")
    order = pc.sort_indices(read["id"])
    fed = trades(np.arange(total, dtype=np.int64))
    for column in fed.column_names:
        written = read[column].take(order).cast(fed.schema.field(column).type).combine_chunks()
        if not written.equals(fed[column].combine_chunks()):
            raise SystemExit(f"{name}: column {column} differs from what was fed")


def ours(root: Path) -> pa.Table:
    """What our own table has."""
    return open_table(root, "Bench.Trade").to_arrow()


def theirs(directory: Path) -> pa.Table:
    """All Parquet files of a sink: neither it nor Delta has removed one."""
    files = sorted(str(path) for path in directory.glob("*.parquet"))
    return ds.dataset(files, format="parquet").to_table()

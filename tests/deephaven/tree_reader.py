"""Reads trees of Parquet files in a Deephaven engine of this process, and writes what it found as Arrow files.

Run by the Python of the engine's environment, which has none of the packages of the tests. Its first argument is JSON:
name -> [layout, directory, table, column of an index to ask for -> conditions, or null: each text]. One JSON line on
standard output says what it read. Then it waits for a line, which is JSON too: name -> rows. A second line says how
many rows those tables, which are open since the beginning, show in the end.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
from deephaven_server import Server

PATIENCE = 60.0  # seconds


def main() -> None:
    """Starts the engine, reads all trees, ends the process."""
    trees, out = json.loads(sys.argv[1]), Path(sys.argv[2])
    arguments = ["-XX:TieredStopAtLevel=1", "-Xmx1g", "-Dauthentication.psk=unused", "-Ddeephaven.console.disable=true"]
    arguments.append("-DTableDataRefreshService.tableLocationsRefreshMillis=200")
    server = Server(host="127.0.0.1", port=0, jvm_args=arguments)
    server.start()
    from deephaven import arrow, parquet
    from deephaven.experimental.data_index import has_data_index

    layouts = parquet.ParquetFileLayout
    known = {
        "flat": layouts.FLAT_PARTITIONED,
        "kv": layouts.KV_PARTITIONED,
        "hive": layouts.KV_PARTITIONED,
        "metadata": layouts.METADATA_PARTITIONED,
    }
    found: dict[str, Any] = {}
    live = {name: nested(parquet, tree[1], tree[2], live=True) for name, tree in trees.items() if tree[3]}
    for name, (layout, directory, table_name, indexed) in trees.items():
        if layout == "nested":
            table = nested(parquet, directory, table_name)
        else:
            table = parquet.read(directory, file_layout=known[layout])
        rows = arrow.to_arrow(table)
        with pa.ipc.new_file(str(out / f"{name}.arrow"), rows.schema) as file:
            file.write_table(rows)
        index = all(has_data_index(table, [column]) for column in indexed) if indexed else None
        same = {column: same_rows(table, asked or each_text(column, rows)) for column, asked in indexed.items()}
        found[name] = {"rows": table.size, "index": index, "same": same}
    print(json.dumps(found), flush=True)
    wanted = json.loads(sys.stdin.readline())
    end = time.monotonic() + PATIENCE
    while any(live[name].size < rows for name, rows in wanted.items()) and time.monotonic() < end:
        time.sleep(0.1)
    print(json.dumps({name: live[name].size for name in wanted}), flush=True)
    os._exit(0)


def each_text(column: str, rows: pa.Table) -> list[str]:
    """A condition for each text of a column."""
    texts = [text for text in rows[column].unique().to_pylist() if text and text.isalnum()]
    return [f"{column} = `{text}`" for text in texts]


def same_rows(table: Any, asked: list[str]) -> list[int]:
    """Filters by conditions, alone and with another condition: the rows of each, by the index.

    AssertionError: a copy without an index has other ones.
    """
    from deephaven import arrow

    counts, copied = [], table.select()
    for condition in asked:
        for conditions in ([condition], [condition, "L % 2 = 0"]):
            found, expected = (arrow.to_arrow(each.where(conditions)) for each in (table, copied))
            assert repr(found.to_pylist()) == repr(expected.to_pylist()), conditions  # NaN equals itself here
            counts.append(found.num_rows)
    return counts


def nested(parquet: Any, directory: str, table_name: str, *, live: bool = False) -> Any:
    """A nested tree, for which the engine's Python interface has no layout; ``live``: it shows dates that come."""
    import jpy  # type: ignore[import-not-found]
    from deephaven.table import Table

    layout = jpy.get_type("io.deephaven.parquet.table.layout.DeephavenNestedPartitionLayout")
    tools = jpy.get_type("io.deephaven.parquet.table.ParquetTools")
    instructions = (
        jpy.get_type("io.deephaven.parquet.table.ParquetInstructions").builder().setIsRefreshing(live).build()
    )
    root = jpy.get_type("java.io.File")(directory)
    return Table(tools.readTable(layout.forParquet(root, table_name, "Date", None, instructions), instructions))


if __name__ == "__main__":
    main()

"""Reads trees of Parquet files in a Deephaven engine of this process, and writes what it found as Arrow files.

Run by the Python of the engine's environment, which has none of the packages of the tests. Its one argument is JSON:
name -> [layout, directory, table, columns of an index to ask for]. One JSON line on standard output says what it read.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
from deephaven_server import Server


def main() -> None:
    """Starts the engine, reads all trees, ends the process."""
    trees, out = json.loads(sys.argv[1]), Path(sys.argv[2])
    arguments = ["-Xmx1g", "-Dauthentication.psk=unused", "-Ddeephaven.console.disable=true"]
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
    for name, (layout, directory, table_name, indexed) in trees.items():
        if layout == "nested":
            table = nested(parquet, directory, table_name)
        else:
            table = parquet.read(directory, file_layout=known[layout])
        rows = arrow.to_arrow(table)
        with pa.ipc.new_file(str(out / f"{name}.arrow"), rows.schema) as file:
            file.write_table(rows)
        found[name] = {"rows": table.size, "index": has_data_index(table, indexed) if indexed else None}
    print(json.dumps(found), flush=True)
    os._exit(0)


def nested(parquet: Any, directory: str, table_name: str) -> Any:
    """A nested tree, for which the engine's Python interface has no layout."""
    import jpy  # type: ignore[import-not-found]
    from deephaven.table import Table

    layout = jpy.get_type("io.deephaven.parquet.table.layout.DeephavenNestedPartitionLayout")
    tools = jpy.get_type("io.deephaven.parquet.table.ParquetTools")
    instructions = jpy.get_type("io.deephaven.parquet.table.ParquetInstructions").EMPTY
    root = jpy.get_type("java.io.File")(directory)
    return Table(tools.readTable(layout.forParquet(root, table_name, "Date", None, instructions), instructions))


if __name__ == "__main__":
    main()

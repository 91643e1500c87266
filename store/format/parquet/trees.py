"""Trees of Parquet files for and by other programs: their layouts, and the names in them.

============  =========================================================  ==========================================
layout        files                                                      the partition value
============  =========================================================  ==========================================
``nested``    ``<internal>/<value>/<Table>/table.parquet``               in the path
``flat``      ``part-<id>-<n>.parquet``, order of rows by ``n``          in the column itself
``kv``        ``<Column>=<value>/part-<id>-<n>.parquet``                 in the path
``metadata``  as ``kv``, with ``_metadata`` and ``_common_metadata``     in the path
``hive``      as ``kv``, leaves also directories of column files, with   in the path, and in the Locations table
              a Locations table
============  =========================================================  ==========================================

Values are written as they are, and those on which readers would disagree are refused where they are a directory:

* Deephaven takes a name literally; Spark, DuckDB, polars and pyarrow undo ``%XX`` and read
  ``__HIVE_DEFAULT_PARTITION__`` as null;
* DuckDB and polars split ``<Column>=<value>`` at every ``=``, DuckDB ends a path at ``?``, polars expands ``*``;
* Deephaven drops blanks around a value behind ``=``;
* pyarrow and Spark pass over a directory that begins with ``_``; Deephaven takes one that ends in ``.parquet`` for a
  file, and a path with ``:`` in ``_metadata`` for a URL.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import Literal, get_args

from sparkhaven.store.errors import InvalidNameError
from sparkhaven.store.format.manifest import TREE
from sparkhaven.store.format.parquet.location_files import NAME
from sparkhaven.store.layout import check_partition

TreeLayout = Literal["nested", "flat", "kv", "metadata", "hive"]
LAYOUTS: tuple[TreeLayout, ...] = get_args(TreeLayout)
EXTENDED: dict[str, TreeLayout] = {  # types of ExtendedStorage
    "parquet:flat": "flat",
    "parquet:kv": "kv",
    "parquet:metadata": "metadata",
    "coreplus:hive": "hive",
}
METADATA, COMMON_METADATA = "_metadata", "_common_metadata"
MANIFEST = TREE.name
LOCATIONS_TABLE, LOCATIONS_TABLES = ".locations_table", (".locations_table", ".location_table")
HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
SUFFIX = ".parquet"
INTERNAL = "0"  # the one internal partition of a nested tree: Deephaven needs every date in every one
_BEHIND_KEY = re.compile(r"[=?*]|\A\s|\s\Z|%[0-9A-Fa-f]{2}|\A__HIVE_DEFAULT_PARTITION__\Z|[.]parquet\Z")
_AMBIGUOUS: dict[TreeLayout, re.Pattern[str]] = {
    "nested": re.compile(r"%[0-9A-Fa-f]{2}|\A_|[.]parquet\Z"),
    "kv": _BEHIND_KEY,
    "metadata": re.compile(f"{_BEHIND_KEY.pattern}|:"),
    "hive": _BEHIND_KEY,
}
_PLAIN: dict[TreeLayout, str] = {
    "nested": "no %XX, no leading _, no .parquet at the end",
    "kv": f"no = ? * or %XX, no blank at an end, no .parquet at the end, and not {HIVE_NULL}",
    "metadata": f"no = ? * : or %XX, no blank at an end, no .parquet at the end, and not {HIVE_NULL}",
    "hive": f"no = ? * or %XX, no blank at an end, no .parquet at the end, and not {HIVE_NULL}",
}


def staged(root: Path) -> Path:
    """Where a tree is written before it is published; there only meanwhile, and after a kill."""
    return root.with_name(f".{root.name}.export")


def part_name(mark: str, number: int) -> str:
    """Name of a leaf without its suffix; names sort as their numbers."""
    return f"part-{mark}-{number:05d}"


def leaf_path(layout: TreeLayout, table: str, column: str, value: str, mark: str, number: int) -> PurePosixPath:
    """Where the Parquet file of one value lies; ``number`` counts the files of a flat tree, or those of the value.

    InvalidNameError: readers would not agree on the value.
    """
    if layout == "nested":
        return PurePosixPath(INTERNAL, check_value(layout, value), table, NAME)
    if layout == "flat":
        return PurePosixPath(part_name(mark, number) + SUFFIX)
    return PurePosixPath(value_directory(column, value), part_name(mark, number) + SUFFIX)


def value_directory(column: str, value: str) -> str:
    """The directory ``<Column>=<value>``. InvalidNameError: readers would not agree on the value."""
    return f"{column}={check_value('kv', value)}"


def check_value(layout: TreeLayout, value: str) -> str:
    """A value that every reader of a layout reads as it is; InvalidNameError for another one."""
    check_partition("partition value", value)
    if _agreed(layout, value):
        return value
    others = [other for other in LAYOUTS if other != "hive" and _agreed(other, value)]
    raise InvalidNameError(
        "partition value would be read as another one by Spark, DuckDB, polars, pyarrow or Deephaven",
        expected=_PLAIN[layout],
        found=repr(value),
        hint=f"export with --layout {' or '.join(others)}. For a tree beside history, set ExtendedStorage type"
        " parquet:flat",
    )


def _agreed(layout: TreeLayout, value: str) -> bool:
    return layout == "flat" or _AMBIGUOUS[layout].search(value) is None

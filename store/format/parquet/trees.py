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

Values are written as they are. Deephaven takes a directory name literally; Spark, DuckDB and pyarrow undo ``%XX`` and
read ``__HIVE_DEFAULT_PARTITION__`` as null. So values on which readers would disagree are refused.
"""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import Literal, get_args

from store.errors import InvalidNameError
from store.format.parquet.names import NAME
from store.layout import check_partition

TreeLayout = Literal["nested", "flat", "kv", "metadata", "hive"]
LAYOUTS: tuple[TreeLayout, ...] = get_args(TreeLayout)
EXTENDED: dict[str, TreeLayout] = {  # types of ExtendedStorage
    "parquet:flat": "flat",
    "parquet:kv": "kv",
    "parquet:metadata": "metadata",
    "coreplus:hive": "hive",
}
METADATA, COMMON_METADATA = "_metadata", "_common_metadata"
MANIFEST = "_manifest.json"
LOCATIONS_TABLE, LOCATIONS_TABLES = ".locations_table", (".locations_table", ".location_table")
HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
SUFFIX = ".parquet"
INTERNAL = "0"  # the one internal partition of a nested tree: Deephaven needs every date in every one
_ESCAPE = re.compile(r"%[0-9A-Fa-f]{2}")


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
        return PurePosixPath(INTERNAL, check_partition("partition value", value), table, NAME)
    if layout == "flat":
        return PurePosixPath(part_name(mark, number) + SUFFIX)
    return PurePosixPath(value_directory(column, value), part_name(mark, number) + SUFFIX)


def value_directory(column: str, value: str) -> str:
    """The directory ``<Column>=<value>``. InvalidNameError: readers would not agree on the value."""
    check_partition("partition value", value)
    if value == HIVE_NULL or _ESCAPE.search(value):
        raise InvalidNameError(
            "partition value would be read as another one by Spark, DuckDB or pyarrow",
            expected=f"no %XX, and not {HIVE_NULL}",
            found=repr(value),
            hint="export with --layout nested or flat, or leave the date out with --dates",
        )
    return f"{column}={value}"

"""Names of the files of a location in Parquet format, relative to its directory."""

from __future__ import annotations

from collections.abc import Collection

NAME = "table.parquet"
SIDECARS = ".dh_metadata/indexes"
INDEX = "Index-"
ROW_SET, BEGIN, END = "dh_row_set", "dh_begin_pos", "dh_end_pos"


def in_parquet(files: Collection[str]) -> bool:
    """Whether the rows of a location with these committed files are read from ``table.parquet``.

    Where column files lie beside it, they are read, and ``table.parquet`` is for others.
    """
    return NAME in files and not any(name.endswith(".dat") for name in files)


def sidecar_of(columns: tuple[str, ...]) -> str:
    """Path of the index over some columns that Deephaven's Parquet reader takes."""
    name = ",".join(columns)
    return f"{SIDECARS}/{name}/index_{name}_{NAME}"


def index_of(columns: tuple[str, ...]) -> str:
    return INDEX + ",".join(columns)

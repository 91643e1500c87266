"""The definition that lies beside the files of a location: which types and codecs the columns were written with."""

from __future__ import annotations

from pathlib import Path

from sparkhaven.store.format.table.tbl_reader import decode_tbl
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.types.model import TableSchema

NAME = "table.tbl"


def location_schema(fs: Fs, directory: Path) -> TableSchema | None:
    """The schema of ``table.tbl``, else of ``<directory>.tbl``; None where there is neither.

    Raises what ``decode_tbl`` and ``Definition.schema`` raise.
    """
    for path in (directory / NAME, directory / f"{directory.name}.tbl"):
        try:
            data = fs.read(path)
        except FileNotFoundError:
            continue
        return decode_tbl(data, path).schema()
    return None

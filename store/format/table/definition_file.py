"""The file of a table definition in a directory: ``table.tbl``, else ``<Table>.tbl``."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from sparkhaven.store.errors import CorruptFileError, SettingsError
from sparkhaven.store.format.table.definition import Definition
from sparkhaven.store.format.table.tbl_reader import decode_tbl
from sparkhaven.store.io.fs import Fs

NAME = "table.tbl"


def definition_name(names: Collection[str], table: str) -> str | None:
    """Which of the files of a directory has the definition of a table."""
    return next((name for name in (NAME, f"{table}.tbl") if name in names), None)


def read_definition(fs: Fs, path: Path) -> tuple[Definition, Path]:
    """The definition of a file or of a location's directory, and where it lies. SettingsError: there is none."""
    if fs.is_dir(path):
        names = [name for name in fs.names(path) if name.endswith(".tbl")]
        name = definition_name(names, path.name) or (names[0] if len(names) == 1 else None)
        if name is None:
            others = ", ".join(names) or "no .tbl file"
            raise SettingsError("directory has no table definition", where=path, expected=NAME, found=others)
        path = path / name
    try:
        data = fs.read(path)
    except FileNotFoundError:
        raise SettingsError("no such file", where=path, expected="a .tbl file, or a directory with one") from None
    if not data:
        raise CorruptFileError("table definition is empty", where=path, expected="a definition", found="0 bytes")
    return decode_tbl(data, path), path

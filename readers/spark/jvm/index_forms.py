"""Indexes of history as the JVM knows them: for each ``Index-<Cols>`` of a table, what its files begin with.

Which rows an index gives is found in the JVM, by its files (``store.scan.index_file``). Python compares their begins,
and so does Java, with the bytes that stand here. An index of other bytes is none.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import takewhile

from sparkhaven.readers.spark.jvm.column_forms import form_entry, prefix_hex
from sparkhaven.readers.spark.options import ReadOptions
from sparkhaven.store.format.parquet.location_files import INDEX
from sparkhaven.store.scan.index_file import index_columns, key_columns
from sparkhaven.store.types.model import Column


def index_entries(
    files: Iterable[str], columns: Iterable[Column], labels: Mapping[str, str], options: ReadOptions
) -> dict[str, object]:
    """By the name of its directory each index that begins with a column of the frame; ``files``: of indexes.

    ``names``: of its key columns, as its files have them. ``columns``: those in the frame that its first keys are, up
    to one that the frame has not; ``keys``: their forms. ``rowSet``, or ``begin`` and ``end``: how the files of its
    positions begin.
    """
    known = {column.name: column for column in columns}
    entries: dict[str, object] = {}
    for directory in dict.fromkeys(path.partition("/")[0] for path in files):
        names = directory.removeprefix(INDEX).split(",")
        shown = list(takewhile(known.__contains__, (labels.get(name, name) for name in names)))
        if directory.startswith(INDEX) and shown:
            entries[directory] = _entry(names, [known[name] for name in shown], options)
    return entries


def _entry(names: list[str], columns: list[Column], options: ReadOptions) -> dict[str, object]:
    number = [columns[0]] * len(names)  # numbers of position columns come behind those of all keys
    begin, end = index_columns(number, contiguous=True)[len(names) :]
    row_set = index_columns(number, contiguous=False)[-1]
    return {
        "names": names,
        "columns": [column.name for column in columns],
        "keys": [form_entry(key, options) for key in key_columns(columns)],
        "begin": prefix_hex(begin),
        "end": prefix_hex(end),
        "rowSet": prefix_hex(row_set),
    }

"""The entry ``deephaven`` of a Parquet footer: a JSON object beside what Parquet itself knows of a file.

Members, all but ``version`` left out where they have no content; a reader ignores others:

==================  ==========================================================================================
``version``         not empty. Deephaven distrusts the offset indexes of writers ``X.Y.Z`` below 0.31.0
``dataIndexes``     per index ``columns`` and ``indexTablePath``, relative to the file, with ``/``
``columnTypes``     per column that is no plain value: ``columnName`` and ``codec`` (``codecName``, ``dataType``)
``sortingColumns``  ``columnName``, ``sortDirection`` (``Ascending``, ``Descending``), most significant first
==================  ==========================================================================================

The members are those of deephaven-core, release 42.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sparkhaven.store.errors import CorruptFileError

KEY = b"deephaven"
VERSION = "sparkhaven-1"
ROW_SET_CODEC = ("io.deephaven.engine.table.impl.dataindex.RowSetCodec", "io.deephaven.engine.rowset.RowSet")


@dataclass(frozen=True, slots=True)
class Footer:
    """``indexes``: columns -> path; ``codecs``: column -> (codec, class of its values); ``sorting``: -> direction."""

    indexes: Mapping[tuple[str, ...], str] = field(default_factory=dict)
    codecs: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    sorting: Mapping[str, str] = field(default_factory=dict)
    version: str = VERSION


def encode_footer(footer: Footer) -> bytes:
    members: dict[str, Any] = {"version": footer.version}
    if footer.indexes:
        members["dataIndexes"] = [
            {"columns": list(columns), "indexTablePath": path} for columns, path in footer.indexes.items()
        ]
    if footer.codecs:
        members["columnTypes"] = [
            {"columnName": name, "codec": {"codecName": codec, "dataType": kind}}
            for name, (codec, kind) in footer.codecs.items()
        ]
    if footer.sorting:
        members["sortingColumns"] = [
            {"columnName": name, "sortDirection": direction} for name, direction in footer.sorting.items()
        ]
    return json.dumps(members, ensure_ascii=False, separators=(",", ":")).encode()


def decode_footer(data: bytes | None, where: object) -> Footer:
    """The entry of a file, an empty one where there is none.

    CorruptFileError: no JSON object, a member of another form, or the path of an index that leaves the directory.
    """
    if data is None:
        return Footer()
    try:
        entry = json.loads(data)
        codecs = [(member, member["codec"]) for member in entry.get("columnTypes", ()) if "codec" in member]
        footer = Footer(
            {tuple(map(_text, m["columns"])): _text(m["indexTablePath"]) for m in entry.get("dataIndexes", ())},
            {m["columnName"]: (_text(c["codecName"]), _text(c["dataType"])) for m, c in codecs},
            {_text(m["columnName"]): _text(m["sortDirection"]) for m in entry.get("sortingColumns", ())},
            _text(entry["version"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise _wrong(
            "footer entry deephaven has another form", where, "a JSON object with its members", error
        ) from error
    for path in footer.indexes.values():
        if path.startswith("/") or "\\" in path or ".." in path.split("/"):
            raise _wrong("path of an index leaves the directory", where, "a path below it", repr(path))
    return footer


def _text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise TypeError(f"{value!r} is not a text")
    return value


def _wrong(problem: str, where: object, expected: object, found: object) -> CorruptFileError:
    hint = "run `sparkhaven verify --deep`. Restore the file from a copy, or merge the date again with --rewrite"
    return CorruptFileError(problem, where=where, expected=expected, found=found, hint=hint)

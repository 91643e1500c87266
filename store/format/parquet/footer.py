"""The entry ``deephaven`` of a Parquet footer: a JSON object beside what Parquet itself knows of a file.

Members, all but ``version`` left out where they have no content; a reader ignores others:

==================  ==========================================================================================
``version``         not empty. Deephaven distrusts the offset indexes of writers ``X.Y.Z`` below 0.31.0
``dataIndexes``     per index ``columns`` and ``indexTablePath``, relative to the file, with ``/``
``columnTypes``     per column that is no plain value: ``columnName`` and ``codec`` (``codecName``, ``dataType``)
``sortingColumns``  ``columnName``, ``sortDirection`` (``Ascending``, ``Descending``), most significant first
==================  ==========================================================================================

The members are those of deephaven-core, release 42.

The metadata of a Parquet file, safe to be asked for its columns.

Arrow checks a column chunk, with its size statistics, when it makes the object for it. Asked for by ``.column()`` of
PyArrow, a damaged chunk is an exception of C++ that nobody catches: it ends the process. Arrow's reader makes the same
objects for all columns of a row group before it reads the first byte, and there such an exception is an error. So each
row group is begun once on a source that refuses to be read.

Columns as fields of a Parquet file, and back.

Every field is optional: null is by definition level, never by sentinel. The field id of Parquet is the number of the
column in the history of the schema, as in the prefix of a column file. Instants are INT64 TIMESTAMP in nanoseconds,
adjusted to UTC; a char is an unsigned INT(16); texts are STRING, those of a symbol table dictionaries in Arrow.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from sparkhaven.store.errors import CorruptFileError, OtherColumnError, SchemaMismatchError
from sparkhaven.store.io.open_files import Seekable
from sparkhaven.store.types.model import Column, Storage

if TYPE_CHECKING:
    from pyarrow.parquet import FileMetaData


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
    return CorruptFileError(problem, where=where, expected=expected, found=found)


ANY_SIZE = 1 << 62
"""Of files whose sizes are not known, as those that ``_metadata`` names."""
_BUFFER = 4096  # of a column; without one the reader of a chunk reads it whole when it is made


def checked_chunks(metadata: FileMetaData, size: int) -> FileMetaData:
    """The metadata of a file of ``size`` bytes, every column chunk checked as Arrow's reader does.

    pa.ArrowException or OSError: a damaged chunk, or one that lies outside of the file.
    """
    from pyarrow.parquet import ParquetFile  # which few commands need

    unread = _Unread(size)
    file = ParquetFile(pa.PythonFile(unread, mode="r"), metadata=metadata, buffer_size=_BUFFER)
    for group in range(metadata.num_row_groups):
        unread.asked = False
        try:
            next(file.iter_batches(1, row_groups=[group], use_threads=False), None)
        except (pa.ArrowException, OSError):
            if not unread.asked:
                raise
    return metadata


class _Unread(Seekable):
    """A file of a size that ends wherever it is read; ``asked``: pages were wanted, so all chunks were sound.

    It raises nothing: Arrow keeps an error of Python with its traceback, and so the open files of all who called.
    """

    asked = False

    def read(self, size: int = -1) -> bytes:
        del size
        self.asked = True
        return b""


FIELD_ID = b"PARQUET:field_id"
TEXTS = pa.dictionary(pa.int32(), pa.string())


def field_of(column: Column) -> pa.Field:
    kind = TEXTS if column.storage is Storage.SYMBOL else column.type.arrow
    return pa.field(column.name, kind, metadata={FIELD_ID: str(column.id).encode()})


def file_schema(columns: Iterable[Column], footer: Footer) -> pa.Schema:
    """The schema of a file with these columns; its metadata become entries of the footer."""
    return pa.schema([field_of(column) for column in columns], {KEY: encode_footer(footer)})


def check_field(field: pa.Field, column: Column, where: object) -> None:
    """OtherColumnError: the field is another column's. SchemaMismatchError: it is of another type.

    An earlier form of the column is none.
    """
    number = (field.metadata or {}).get(FIELD_ID, b"")
    if number not in (b"", b"-1", str(column.id).encode()):
        raise OtherColumnError(
            f"field {column.name} says that it belongs to another column",
            where=where,
            expected=f"field id {column.id}",
            found=f"field id {number.decode(errors='replace')}",
            hint="the file is damaged or a copy of another one, or another schema wrote it. Restore the file, or the"
            " schema with its history",
        )
    if plain(field.type) not in (column.type.arrow, *(form.type.arrow for form in column.forms)):
        raise SchemaMismatchError(
            f"field {column.name} has another type than the column",
            where=where,
            expected=column.type.arrow,
            found=field.type,
            hint="another schema wrote the file. Restore that schema, or merge the date again with --rewrite",
        )


def field_names(schema: pa.Schema) -> dict[int, str]:
    """The names of the fields that say of which column they are, by its id."""
    ids = {field.name: (field.metadata or {}).get(FIELD_ID, b"-1").decode("ascii", "replace") for field in schema}
    return {int(number): name for name, number in ids.items() if number.isdecimal()}


def plain(kind: pa.DataType) -> pa.DataType:
    """The type of the values: texts without a dictionary, all of one kind."""
    value = kind.value_type if pa.types.is_dictionary(kind) else kind
    return pa.string() if pa.types.is_large_string(value) or pa.types.is_string_view(value) else value


def as_column(values: pa.ChunkedArray, column: Column) -> pa.Array:
    """Values of a file as one array of the type in which the column is read."""
    kind = TEXTS if column.storage is Storage.SYMBOL else column.type.arrow
    if values.type != kind:
        if pa.types.is_dictionary(kind) and not pa.types.is_dictionary(values.type):
            values = values.cast(pa.string()).dictionary_encode()
        values = values.cast(kind)
    if pa.types.is_dictionary(kind):
        values = values.unify_dictionaries()
    if values.num_chunks == 1:
        return values.chunk(0)
    return pa.concat_arrays(values.chunks) if values.num_chunks else pa.array([], kind)


def compacted(array: pa.Array) -> pa.Array:
    """Texts of a symbol table with a dictionary of only those that the rows have, in the order of the table."""
    ids = array.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    used = np.unique(ids)
    used = used[used >= 0]
    codes = np.searchsorted(used, ids).astype(np.int32)
    indices = pa.array(codes, mask=ids < 0)
    return pa.DictionaryArray.from_arrays(indices, array.dictionary.take(pa.array(used))).cast(TEXTS)

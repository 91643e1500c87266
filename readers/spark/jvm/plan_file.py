"""The file of a plan: what Spark's JVM needs to read a pinned snapshot. Python writes it, Java takes it and deletes it.

Little-endian. It lives between two calls of one program, so both sides are always of one release::

    8   magic  SHVPLAN1
    8   i8     bytes of the whole file
    4   u4     CRC-32 of all that follows
    4   u4     bytes of the head
    ...        head: an object in JSON (UTF-8), see ``_head``
    72 n       an entry a slice, in the order of the plan:
               u4 number of its value, of its internal partition, of its stream (0xFFFFFFFF: history) and of its shape
               u4 marks (1: written by a newer schema, 2: in Parquet, 4: ranges of chosen rows follow, 8: not all rows
               of these ranges are chosen)
               u4 bytes of its details
               i8 first row, row after the last, committed rows, epoch that made the location, when that was (ms, 0:
               not known), epoch that changed it
    ...        details, a slice after the other: u4 bytes of the directory, the directory (UTF-8); files
               (``store.epochs.state.packed_location``); for each group of columns u4 number of rows of statistics,
               the u4 length of each, and the rows (``store.epochs.state.statistics``); files of indexes, if its shape
               has any; chosen rows, to the end: i8 first, i8 after the last of each range; where not all rows of these
               are chosen, a bit a row (the lowest of a byte first) and u4 bytes of these bits

A shape has the names of the files, the names of the columns of each group, those of files of indexes, the names in the
location of columns that have another one there, and the places of its indexes in ``indexes``. Details are the bytes
that the commit log has of a location: Python does not take them apart, and Java does so for the columns that a query
reads.

Indexes of history: for each ``Index-<Cols>`` of a table the JVM is told what its files begin with.
Which rows an index gives is found in the JVM, by its files (``store.scan.index_file``). Python compares their begins,
and so does Java, with the bytes that stand here. An index of other bytes is none.

*Pinned streams*, a part of the head, tell the JVM what it must know of a snapshot to see whether it still holds.
``merges`` is the directory of the table's merge records. ``streams`` are objects:

``stream``, ``epoch``      its name, and the pinned epoch
``log``, ``checkpoint``, ``removals``   paths
``logSeen``, ``removalsSeen``  what the two files were when they were read: [device, inode, size, time of modification,
                           time of the last change (ns)], or null
``last``, ``mark``         offset of the last known record of the log, its first eight bytes in hexadecimal (or empty)
``removalsEnd``            place after the last known removal
``restored``               the older epoch that a rollback has gone back to since the pinned one, or null
``removed``                of each location that was removed the last removal: [internal, value, since, made, phase]

A pinned snapshot as the plan that Java reads, or the reason why Python reads it.

Java's source asks Python's for a plan by three options of a read, which it adds to those of the user.
``sparkhaven.plan`` names a file that does not exist. ``schema`` writes it: a plan (``plan_file``), or ``SHVREASN`` and
in UTF-8 the reason why Python reads. Java takes it and removes it as soon as ``schema`` has ended, with an error too.
``sparkhaven.jar`` is the digest of the sources of Java's jar: for another one than ours no plan is made.
``sparkhaven.reader`` is the reader that the session's setting names; the option ``reader`` has precedence.

Columns as the JVM knows them: each form in which files may have one, with the bytes that such a file begins with.

A ``.dat`` file begins with a Java stream in one canonical form (``store.format.column.prefix``). The JVM never
deserialises it. It compares the bytes with those that Python expects.

A type with a codec is given in words by which the Java reader finds the decoder: a kind, then its numbers and words.

=====================  ==========================================  ======================================
words                  type                                        bytes of a value, as in
=====================  ==========================================  ======================================
dates W                LocalDate in W bytes                        ``codings.local_date``
times D                LocalTime with D digits                     ``codings.local_time``
decimals P S           BigDecimal or BigInteger with a precision   ``codings.decimals``
numbers, wholes        BigDecimal, BigInteger of any length        ``codings.decimals``
octets N               byte[] of N bytes that are never null       ``codings.byte_array``
nullable-octets N      byte[] of N bytes                           ``codings.byte_array``
bytes                  byte[], and classes that nobody knows       ``codings.byte_array``
row-sets               RowSet                                      ``codings.row_set``
arrays L               arrays of a primitive, by its letter        ``codings.java_array``
chars U string|int     char[] with null U, and option ``char``     ``codings.java_array``
instants F             Instant[], with option ``instant``          ``codings.instant_array``
texts                  String[]                                    ``codings.string_array``
maps K                 maps of texts to values of kind K           ``codings.string_map``
=====================  ==========================================  ======================================

StringSet has none: its bits are symbols of the location.
"""

from __future__ import annotations

import base64
import json
import struct
import warnings
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import takewhile
from pathlib import Path
from typing import Any

import pyarrow as pa

from sparkhaven.readers.arrow.pinned_table import Doubt, PinnedTable
from sparkhaven.readers.spark.batch import shown_columns, where_of
from sparkhaven.readers.spark.jvm.jar import jar_digest
from sparkhaven.readers.spark.options import DEFAULT_READER, STREAM, ReadOptions
from sparkhaven.readers.spark.spark_types import require_exact, spark_schema
from sparkhaven.store.epochs.pins import Pin
from sparkhaven.store.epochs.state.log_records import pack_ranges
from sparkhaven.store.epochs.state.packed_location import Files, Names, Numbering, Stats
from sparkhaven.store.errors import SettingsError, SparkhavenError, as_storage_errors
from sparkhaven.store.expressions.predicate.expression import Predicate
from sparkhaven.store.format.column.prefix import charset_of, encode_prefix, grouping_keys
from sparkhaven.store.io.open_files import Stat
from sparkhaven.store.layout import INDEX, in_parquet
from sparkhaven.store.places import TablePlace
from sparkhaven.store.scan.index_file import index_columns, key_columns
from sparkhaven.store.scan.slices import Slice
from sparkhaven.store.types.codings.byte_array import ByteArrays, FixedBytes
from sparkhaven.store.types.codings.coding import Coding
from sparkhaven.store.types.codings.decimals import FixedDecimals, FreeDecimals
from sparkhaven.store.types.codings.instant_array import InstantArrays
from sparkhaven.store.types.codings.java_array import JavaArrays
from sparkhaven.store.types.codings.local_date import LocalDateCoding
from sparkhaven.store.types.codings.local_time import LocalTimeCoding
from sparkhaven.store.types.codings.row_set import RowSets
from sparkhaven.store.types.codings.string_array import StringArrays
from sparkhaven.store.types.codings.string_map import StringMaps
from sparkhaven.store.types.model import Column, Kind
from sparkhaven.store.types.null_char import has_other_null
from sparkhaven.store.user_tables import is_user_table


class IndexForms:
    """The indexes of locations that begin with a column of the frame, each once; ``entries`` are those so far."""

    def __init__(self, columns: Sequence[Column], options: ReadOptions) -> None:
        self._columns, self._options = columns, options
        self._numbers: dict[tuple[str, tuple[int, ...]], int] = {}
        self.entries: list[dict[str, object]] = []

    def numbers(self, files: Iterable[str], named_by: int) -> list[int]:
        """Places of the indexes with these files among the entries; ``named_by``: by which version they are named.

        An entry has ``directory``; ``names`` of its key columns, as its files have them; ``columns``: those in the
        frame that its first keys are, up to one that the frame has not; ``keys``: their forms; ``rowSet``, or ``begin``
        and ``end``: how the files of its positions begin.
        """
        known = {column.stem(named_by): column for column in self._columns}
        numbers = []
        for directory in dict.fromkeys(path.partition("/")[0] for path in files):
            names = directory.removeprefix(INDEX).split(",")
            shown = [known[name] for name in takewhile(known.__contains__, names)]
            if directory.startswith(INDEX) and shown:
                key = directory, tuple(column.id for column in shown)
                if key not in self._numbers:
                    self._numbers[key] = len(self.entries)
                    self.entries.append({"directory": directory, **_entry(names, shown, self._options)})
                numbers.append(self._numbers[key])
        return numbers


def _entry(names: list[str], columns: list[Column], options: ReadOptions) -> dict[str, object]:
    number = [columns[0]] * len(names)  # numbers of position columns come behind those of all keys
    begin, end = index_columns(number, contiguous=True)[len(names) :]
    row_set = index_columns(number, contiguous=False)[-1]
    return {
        "names": names,
        "columns": [column.name for column in columns],
        "keys": [form_entry(key, options) for key in key_columns(columns)],
        "begin": _plain_prefix(begin),
        "end": _plain_prefix(end),
        "rowSet": _plain_prefix(row_set),
    }


def pinned_streams(place: TablePlace, pins: Iterable[Pin]) -> dict[str, object]:
    """The part about the streams of a table at its place; ``pins``: of those that the plan has slices of."""
    return {"merges": str(place.merges), "streams": [_stream(place, pin) for pin in pins]}


def _stream(place: TablePlace, pin: Pin) -> dict[str, object]:
    paths, watched = place.of_stream(pin.state.stream), pin.watched()
    return {
        "stream": pin.state.stream,
        "epoch": pin.state.epoch,
        "log": str(paths.stream_log),
        "checkpoint": str(paths.stream_checkpoint),
        "removals": str(paths.stream_removals),
        "logSeen": _identity(watched.log_seen),
        "removalsSeen": _identity(watched.removals_seen),
        "last": watched.last[0],
        "mark": watched.last[1].hex(),
        "removalsEnd": watched.removals_end,
        "restored": watched.restored,
        "removed": [
            [location.key.internal, location.key.value, location.since, location.made_ms, phase.value]
            for location, phase in watched.removed
        ],
    }


def _identity(stat: Stat | None) -> list[int] | None:
    return None if stat is None else [stat.device, stat.inode, stat.size, stat.mtime_ns, stat.ctime_ns]


MAGIC = b"SHVPLAN1"
HISTORY = 0xFFFF_FFFF
NEWER, PARQUET, CHOSEN, PICKED = 1, 2, 4, 8
_HEADER = struct.Struct("<8sqII")
_ENTRY = struct.Struct("<IIIIIIqqqqqq")
_LENGTH = struct.Struct("<I")
_COVERED = 20  # bytes before what the checksum covers
_NO_INDEX = Files.of({})
NEAR = 128  # rows that cost Java as much as one more batch: between two ranges they are read with them
MOST_EVALUATED = 100_000_000  # rows of which a plan finds out whether they match the option ``where``
Shape = tuple[Names, tuple[Names, ...], Names, tuple[tuple[str, str], ...], tuple[int, ...]]
"""Names of the files, of the columns of each group, and of the files of indexes; of columns with another name in the
location that name; numbers of the indexes."""


def encode_plan(table: PinnedTable, slices: Iterable[Slice], columns: Sequence[Column], options: ReadOptions) -> bytes:
    """The bytes of the file; ``slices`` of a plan of the table, ``columns``: those of the data frame, in order."""
    numbers = _Numbers(columns, options)
    entries, details = _entries(table, slices, numbers)
    head = json.dumps(_head(table, columns, options, numbers, len(entries)), ensure_ascii=False).encode()
    body = b"".join((_LENGTH.pack(len(head)), head, *entries, *details))
    return _HEADER.pack(MAGIC, _COVERED + len(body), zlib.crc32(body), len(head)) + body[_LENGTH.size :]


class _Numbers:
    """Places of what slices have in common, in the order of their first use."""

    def __init__(self, columns: Sequence[Column], options: ReadOptions) -> None:
        self.values, self.internals, self.streams, self.shapes = (Numbering() for _ in range(4))
        self.indexes, self._columns = IndexForms(columns, options), columns
        self._shapes: dict[tuple[int, ...], tuple[int, Shape]] = {}  # with the tuples, so that they live as long

    def shape(self, files: Files, stats: Stats, indexes: Files, named_by: int) -> int:
        """The place of a shape. Locations share the tuples of names, so most are found without hashing the names."""
        same = (named_by, id(files.names), id(indexes.names), *[id(names) for names, _ in stats.groups])
        known = self._shapes.get(same)
        if known is None:
            stems = ((column.name, column.stem(named_by)) for column in self._columns)
            others = tuple((name, stem) for name, stem in stems if name != stem)
            forms = tuple(self.indexes.numbers(indexes.names, named_by))
            shape = files.names, tuple(names for names, _ in stats.groups), indexes.names, others, forms
            known = self._shapes[same] = self.shapes[shape], shape
        return known[0]


def _entries(table: PinnedTable, slices: Iterable[Slice], numbers: _Numbers) -> tuple[list[bytes], list[bytes]]:
    """The entries and the details of slices."""
    entries, details = [], []
    stream, locations = None, None
    for slice_ in slices:
        files, stats = Files.of(slice_.files), Stats.of(slice_.stats)
        directory = slice_.path.encode()
        parts = [_LENGTH.pack(len(directory)), directory, files.data]
        for _, ranges in stats.groups:
            parts.append(_lengths(len(ranges)).pack(len(ranges), *map(len, ranges)))
            parts += ranges
        indexes = _NO_INDEX
        if slice_.indexes:
            indexes = Files.of(slice_.indexes)
            parts.append(indexes.data)
        marks = NEWER * slice_.newer | PARQUET * in_parquet(files)
        if slice_.selected is not None:
            near = slice_.selected.closed(NEAR)
            marks |= CHOSEN
            parts.append(pack_ranges(near))
            if len(near) < len(slice_.selected):
                marks |= PICKED
                bits = slice_.selected.bits_among(near)
                parts += bits, _LENGTH.pack(len(bits))
        number, times = HISTORY, (0, 0, 0)
        if slice_.stream is not None:
            if locations is None or slice_.stream != stream:
                stream, locations = slice_.stream, table.pin(slice_.stream).state.locations
            number, location = numbers.streams[stream], locations[slice_.key]
            times = location.since, location.made_ms, location.epoch
        detail = b"".join(parts)
        first = numbers.values[slice_.key.value], numbers.internals[slice_.key.internal], number
        shape = numbers.shape(files, stats, indexes, slice_.named_by)
        rows = slice_.start, slice_.stop, slice_.rows
        entries.append(_ENTRY.pack(*first, shape, marks, len(detail), *rows, *times))
        details.append(detail)
    return entries, details


@lru_cache(64)
def _lengths(count: int) -> struct.Struct:
    """Of rows of statistics: their number and the length of each."""
    return struct.Struct(f"<{1 + count}I")


def _head(
    table: PinnedTable, columns: Sequence[Column], options: ReadOptions, numbers: _Numbers, slices: int
) -> dict[str, Any]:
    """``table``; ``schema`` of the frame as Spark's JSON; ``columns`` in that order (``column_entry``); options that a
    task needs; the texts and shapes that entries number; ``indexes`` (``index_forms``); ``pins``
    (``pinned_streams``)."""
    return {
        "table": table.name,
        "schema": spark_schema(columns, options).json(),
        "columns": [column_entry(column, options) for column in columns],
        "instant": options.instant,
        "char": options.char,
        "checksums": options.checksum_verify,
        "taskBytes": options.task_bytes,
        "where": options.where or "",
        "slices": slices,
        "values": list(numbers.values),
        "internals": list(numbers.internals),
        "streams": list(numbers.streams),
        "shapes": [
            [list(files), list(map(list, groups)), list(names), dict(others), list(indexes)]
            for files, groups, names, others, indexes in numbers.shapes
        ],
        "indexes": numbers.indexes.entries,
        "pins": pinned_streams(table.place, [table.pin(stream) for stream in numbers.streams]),
    }


def write_plan(path: Path, data: bytes) -> None:
    """A new file that the user alone may read."""
    path.touch(0o600, exist_ok=False)
    path.write_bytes(data)


def why_python(options: ReadOptions) -> str | None:
    """Why Python must read, known before the table is opened; None: Java may do it. StorageError."""
    if options.reader == "python":
        return "the option reader, or the session's setting, says so"
    with as_storage_errors():
        if is_user_table(options.place):
            return f"{options.place.table} is a table of a user, whose files other programs write"
    return None


def why_python_reads(slices: Sequence[Slice], columns: Sequence[Column]) -> str | None:
    """Why Python must read these slices; None: Java does it, with the same rows and errors."""
    for column in columns:
        coding = column.type.coding
        if coding is not None and coding.form != "set" and not has_decoder(coding):
            return f"column {column.name} has the type {column.type.name}"
    unfit = next((column for column in columns if not _fits_parquet(column)), None)
    parquet = next((slice_ for slice_ in slices if in_parquet(slice_.files)), None) if unfit is not None else None
    if unfit is not None and parquet is not None:
        return f"column {unfit.name} has the type {unfit.type.name}, and {parquet.directory} is in Parquet"
    return None


def _fits_parquet(column: Column) -> bool:
    """Whether Spark's own reader of Parquet has the values: it has decimals of 38 digits at most."""
    return not (pa.types.is_decimal256(column.type.arrow) or has_other_null(column))


PLAN, JAR, READER = "sparkhaven.plan", "sparkhaven.jar", "sparkhaven.reader"
REASON = b"SHVREASN"


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """``path``: where the answer belongs. ``jar``: the digest of the sources of the jar that asks. ``reader``: the
    option of that name, else what the session's setting names. ``is_stream``: an option of streams alone is given.
    """

    path: Path
    jar: str
    reader: str
    is_stream: bool

    def answer(self, table: PinnedTable, options: ReadOptions) -> bool:
        """Writes the plan or the reason; whether Java reads. SettingsError: the option asks for Java, which cannot."""
        plan = self._refusal(options) or make_plan(table, options)
        write_plan(self.path, plan if isinstance(plan, bytes) else REASON + plan.encode())
        return isinstance(plan, bytes)

    def _refusal(self, options: ReadOptions) -> str | None:
        if self.is_stream:
            return "streams are read by Python"
        try:
            ours = jar_digest()
        except SettingsError as error:
            reason = error.what
        else:
            if self.jar == ours:
                return None
            reason = "the jar in the session is not of this installation's release"
        if options.reader == "jvm":
            raise refused(reason)
        # the process that plans may have imported another sparkhaven than the one that the session's jar is of
        warnings.warn(f"Spark reads tables by the Python of {Path(__file__).parents[3]}: {reason}", stacklevel=2)
        return reason


def split_request(options: Mapping[str, str]) -> tuple[dict[str, str], PlanRequest | None]:
    """The options of the user by their names in small letters, and what Java's source asks for.

    None: Spark has loaded Python's source alone.
    """
    given = {name.lower(): text for name, text in options.items()}
    plan, jar, setting = (given.pop(name, None) for name in (PLAN, JAR, READER))
    if plan is None or jar is None:
        return given, None
    is_stream = any(name.lower() in given for name in STREAM)
    return given, PlanRequest(Path(plan), jar, given.get("reader") or setting or DEFAULT_READER, is_stream)


def make_plan(table: PinnedTable, options: ReadOptions) -> bytes | str:
    """The plan of a table for these options of a read; a text is the reason why Python reads.

    What cannot be planned is Python's: its source tells the error when a query runs. SettingsError: the option
    ``reader`` asks for Java, which cannot read this.
    """
    try:
        plan = _plan(table, options)
    except SparkhavenError as error:
        if options.reader == "jvm":
            raise
        return f"it cannot be planned: {error.what}"
    if isinstance(plan, str) and options.reader == "jvm":
        raise refused(plan)
    return plan


def refused(reason: str) -> SettingsError:
    """The error where the option ``reader`` asks for Java, which cannot read."""
    return SettingsError(
        "Java cannot read this",
        where="option reader",
        expected="reader=auto",
        found=reason,
        hint="leave the option out",
    )


def _plan(table: PinnedTable, options: ReadOptions) -> bytes | str:
    reason = why_python(options)
    if reason is not None:
        return reason
    columns = shown_columns(table, options)
    where = where_of(options, table.schema)
    slices = table.plan(dates=options.dates, sources=options.sources, where=where, tier=options.tier).slices
    require_exact(slices, columns, options)
    return plan_slices(table, slices, columns, where, options)


def plan_slices(
    table: PinnedTable,
    slices: Sequence[Slice],
    columns: Sequence[Column],
    where: Predicate | None,
    options: ReadOptions,
    *,
    most: int = MOST_EVALUATED,
) -> bytes | str:
    """The plan of slices, of which Java reads the rows that match the condition; or the reason why Python reads.

    Statistics tell of most slices whether all rows match. Of the others ``where`` is evaluated here, so that it has one
    meaning whoever reads: of ``most`` rows at most.
    """
    reason = why_python_reads(slices, columns)
    if reason is not None or where is None:
        return reason or encode_plan(table, slices, columns, options)
    doubts = [Doubt.of(table, slice_, where) for slice_ in slices]
    rows = sum(doubt.open.count for doubt in doubts if doubt.open is not None)
    if rows > most:
        return f"the option where is to be evaluated for {rows:,} rows, a plan does it for {most:,} at most"
    parts = (doubt.matching(table, where) for doubt in doubts)
    return encode_plan(table, (part for part in parts if part is not None), columns, options)


_WORDS: dict[type[Coding], Callable[[Any, ReadOptions], str]] = {
    LocalDateCoding: lambda coding, options: f"dates {coding.width}",
    LocalTimeCoding: lambda coding, options: f"times {coding.digits}",
    FixedDecimals: lambda coding, options: f"decimals {coding.precision} {coding.scale}",
    FreeDecimals: lambda coding, options: "wholes" if coding.whole else "numbers",
    FixedBytes: lambda coding, options: f"{'nullable-' if coding.nullable else ''}octets {coding.length}",
    ByteArrays: lambda coding, options: "bytes",
    RowSets: lambda coding, options: "row-sets",
    JavaArrays: lambda coding, options: (
        f"chars {coding.null} {options.char}" if coding.letter == "C" else f"arrays {coding.letter}"
    ),
    InstantArrays: lambda coding, options: f"instants {options.instant}",
    StringArrays: lambda coding, options: "texts",
    StringMaps: lambda coding, options: f"maps {coding.kind}",
}


def has_decoder(coding: Coding) -> bool:
    """Whether the Java reader has a decoder of the coding."""
    return type(coding) in _WORDS


def decoder_words(coding: Coding, options: ReadOptions) -> str | None:
    """The words of a coding's decoder; None: the Java reader has none."""
    words = _WORDS.get(type(coding))
    return None if words is None else words(coding, options)


def column_entry(column: Column, options: ReadOptions) -> dict[str, object]:
    """``name``, ``id``, whether it is the partition value, and ``forms``, the newest first.

    The partition value has no forms.
    """
    partitioning = column.kind is Kind.PARTITIONING
    forms = () if partitioning else (column, *reversed(column.earlier))
    return {
        "name": column.name,
        "id": column.id,
        "partitioning": partitioning,
        "forms": [form_entry(form, options) for form in forms],
    }


def form_entry(column: Column, options: ReadOptions) -> dict[str, object]:
    """``type``, ``storage``, ``width`` of an entry, ``charset``, ``nullChar`` (-1: none), and prefixes in base64.

    ``prefix``: of a column without a grouping. ``overflow``: of one whose grouping has a file of its own. The zeros
    up to the first row, at ``dataOffset``, are left out. ``coding``: words of a decoder (``coded_values``); ``domain``:
    what a value is, for people; both null of plain values. ``grouping``: of grouping columns (``grouping_keys``).
    """
    coding = column.type.coding
    grouped = column.kind is Kind.GROUPING and coding is None
    before, head, declared = grouping_keys(column) if grouped else (0, b"", False)
    plain, overflow, offset = _prefixes(column) if column.width else ("", "", 0)
    return {
        "type": column.type.name,
        "storage": column.storage.name,
        "width": column.width,
        "charset": charset_of(column),
        "nullChar": column.type.null if column.type.name == "char" else -1,
        "coding": None if coding is None else decoder_words(coding, options),
        "domain": None if coding is None else coding.domain,
        "prefix": plain,
        "overflow": overflow,
        "dataOffset": offset,
        "grouping": {"before": before, "head": _text(head), "declared": declared} if grouped else None,
    }


def _plain_prefix(column: Column) -> str:
    """How a file of a column begins that has no grouping, without the zeros up to the first row."""
    return _prefixes(column)[0]


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _prefixes(column: Column) -> tuple[str, str, int]:
    key = column.type.java, column.width, charset_of(column), column.id
    known = _KNOWN.get(key)
    if known is None:
        plain = encode_prefix(column)
        overflow = encode_prefix(column, overflow=True)
        known = _text(plain.rstrip(b"\0")), _text(overflow.rstrip(b"\0")), len(plain)
        if len(_KNOWN) >= MOST_KNOWN:
            _KNOWN.clear()
        _KNOWN[key] = known
    return known


MOST_KNOWN = 1 << 12
_KNOWN: dict[tuple[str, int, str, int], tuple[str, str, int]] = {}

"""Read-only checks of one location: its record, its files, its indexes, and with ``deep`` every byte of them.

A stream may publish while a check runs, so ``table.size`` may name a later epoch than the state that was loaded. It is
compared with the state of its own epoch then: the log is loaded again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from sparkhaven.readers.checks.column_values import check_values, is_sound
from sparkhaven.readers.checks.committed import CommittedFile, Expected, check_file, deep_crc
from sparkhaven.readers.checks.findings import Finding, finding, from_error
from sparkhaven.readers.checks.index_rows import check_index_rows
from sparkhaven.store import next_steps
from sparkhaven.store.epochs.files.published_size import OWNER, TABLE_DEFINITION, record_bytes
from sparkhaven.store.epochs.reading.stream_state import load_stream
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.errors import SparkhavenError, TableNotFoundError
from sparkhaven.store.format.column.prefix import LITTLE, Prefix
from sparkhaven.store.format.table.definition import NESTED, Definition
from sparkhaven.store.format.table.table_size import NAME as TABLE_SIZE
from sparkhaven.store.format.table.table_size import TableSize, decode, encode
from sparkhaven.store.format.table.tbl import decode_tbl, definition_name
from sparkhaven.store.io.fs import Fs, files_below
from sparkhaven.store.layout import INDEX, PARQUET, SIDECARS, LocationKey, in_parquet
from sparkhaven.store.places import TablePlace
from sparkhaven.store.scan.column_file import OVR, committed_column, open_parquet
from sparkhaven.store.schema.differences import column_differences
from sparkhaven.store.types.model import Column, TableSchema

SHOWN = 5  # differences that a message names
TRIES = 5  # for a record whose epoch is folded away before it can be loaded
_SAME = ", and other times, stream or checksums"


class LaterEpochs:
    """Locations of a stream at epochs after the state that a check has loaded. Remembers the newest state."""

    def __init__(self, place: TablePlace, state: StreamState) -> None:
        self._place = place.of_stream(state.stream)
        self._loaded, self._newest = state.epoch, state

    def has(self, epoch: int) -> bool:
        """Whether the log has an epoch by now that it did not have when the state was loaded."""
        if self._newest.epoch < epoch:
            self._newest = load_stream(self._place)
        return self._loaded < epoch <= self._newest.epoch

    def record(self, key: LocationKey, epoch: int) -> bytes | None:
        """The record that an epoch publishes for a location, empty if it does not; None: the epoch is not kept."""
        location = self._newest.locations.get(key)
        if location is None or location.epoch != epoch:
            try:
                location = load_stream(self._place, epoch=epoch).locations.get(key)
            except TableNotFoundError:
                return None
        return b"" if location is None or location.epoch != epoch else record_bytes(self._place.stream, location)


def check_location(
    fs: Fs,
    schema: TableSchema,
    expected: Expected,
    definitions: Collection[bytes],
    *,
    deep: bool,
    later: LaterEpochs | None = None,
) -> Iterator[Finding]:
    """Findings of one location, file by file; a damaged file does not end the check.

    ``definitions`` are the contents that a ``table.tbl`` can have: those of all versions of the schema. ``later``:
    epochs that a running stream may have published since the state was loaded.
    """
    directory = expected.directory
    names = fs.names(directory)
    if not names:
        if expected.rows and not expected.truncated:
            yield finding("E221", directory, expected=f"{expected.rows} rows", found="nothing")
        return
    if expected.vouched:
        yield from check_record(fs, expected, names, later)
    every = (c.at(expected.named_by).within(expected.files) for c in (*schema.stored, *schema.retired) if c.files)
    columns = [c for c in every if c.files[0] in expected.files and c.files[0] in names]
    sound = {name for c in columns if deep and is_sound(fs, expected, c) for name in c.files}
    damaged: set[str] = set()
    unread: set[str] = set()
    for name, state in sorted(expected.files.items()):
        crc = deep_crc(deep and name not in sound)
        for defect in check_file(fs, CommittedFile(directory / name, state), crc):
            yield defect
            if defect.severity == "error":
                damaged.add(name)
            if defect.code == "E202":
                unread.add(name)
    for column in columns:
        readable = unread.isdisjoint(column.files)  # else a mapping of it could end the process
        yield from _column(fs, expected, column, names, deep=deep and readable and column.files[0] not in sound)
    if PARQUET in expected.files and PARQUET not in damaged:
        yield from _parquet(fs, schema, expected, deep=deep)
    yield from _indexes(fs, schema, expected, damaged, deep=deep)
    yield from _definition(fs, schema, expected, names, definitions)
    yield from _strays(fs, schema, expected, names)


def check_record(
    fs: Fs, expected: Expected, names: Sequence[str], later: LaterEpochs | None = None
) -> Iterator[Finding]:
    """The location's ``table.size`` against the committed state, or that of ``later`` epochs where it names one."""
    path = expected.directory / TABLE_SIZE
    if TABLE_SIZE not in names:
        yield finding("W224" if expected.tier == "intraday" else "E224", path, expected=TABLE_SIZE)
        return
    for _ in range(TRIES):
        try:
            data = fs.read(path)
            if data == expected.published:
                return
            record = decode(data, path)
            epoch = record.epoch or 0
            if later is None or not later.has(epoch):
                break
            published = later.record(expected.key, epoch)
        except (SparkhavenError, OSError) as error:
            yield from_error(error, path)
            return
        if published == data:
            return
        if published is not None:
            break
    else:
        yield finding("N225", path, found=f"epoch {epoch}")
        return
    yield from _record_differences(expected, record, data, names)


def _record_differences(expected: Expected, record: TableSize, data: bytes, names: Sequence[str]) -> Iterator[Finding]:
    intraday = expected.tier == "intraday"
    again = None if intraday else next_steps.merge_again_at(expected.directory)
    for name in record.data_indexes:
        if name not in names:
            yield finding("E253", expected.directory / name, expected="a directory")
    sizes = {name: state.size for name, state in expected.files.items()}
    same = (record.size, dict(record.data_file_sizes), record.truncated) == (expected.rows, sizes, expected.truncated)
    sums = {name: state.crc for name, state in expected.files.items()}
    if not intraday and same and dict(record.checksums) == sums and encode(record) == data:
        return
    unmarked = expected.truncated and not record.truncated  # a truncate has recorded it, and was stopped
    behind = intraday and ((record.epoch or 0) < (expected.epoch or 0) or unmarked)
    wanted = f"{expected.rows} rows, epoch {expected.epoch}" + _differing(sizes, record) + ("" if not same else _SAME)
    there = f"{record.size} rows, epoch {record.epoch}"
    code, path = "W226" if behind else "E226", expected.directory / TABLE_SIZE
    yield finding(code, path, expected=wanted, found=there, hint=again)


def _differing(sizes: Mapping[str, int], record: TableSize) -> str:
    recorded = record.data_file_sizes
    other = sorted(name for name in {*sizes, *recorded} if sizes.get(name) != recorded.get(name))
    return f", other lengths of {', '.join(other[:3])}{' ...' if len(other) > 3 else ''}" if other else ""


def _definition(
    fs: Fs, schema: TableSchema, expected: Expected, names: Sequence[str], definitions: Collection[bytes]
) -> Iterator[Finding]:
    """The location's ``table.tbl`` against the schemas that were deployed; readers here use the deployed schema."""
    name = definition_name(names, schema.name)
    path = expected.directory / (name or TABLE_DEFINITION)
    again = None if expected.tier == "intraday" else next_steps.merge_again_at(path)
    if name is None:
        if not expected.truncated and expected.vouched:
            yield finding("E222", path, expected=TABLE_DEFINITION, found="nothing", hint=again)
        return
    try:
        data = fs.read(path)
        if data in definitions:
            return
        definition = decode_tbl(data, path)
    except (SparkhavenError, OSError) as error:
        yield from_error(error, path, hint=again or finding("E223", path).hint)
        return
    code, wanted = "E223" if expected.vouched else "N223", f"that of a version of {schema.full_name}"
    yield finding(code, path, expected=wanted, found=_different(definition, schema), hint=again)


def _different(definition: Definition, schema: TableSchema) -> str:
    """How a definition differs from the deployed schema, first the one, then the other."""
    if (definition.namespace, definition.name) != (schema.namespace, schema.name):
        return f"the definition of {definition.namespace}.{definition.name}"
    try:
        differences = [part.words() for part in column_differences(definition.schema(), schema)]
    except SparkhavenError as error:
        return f"{error.what}: {error.found}"
    if definition.storage_type != NESTED:
        differences.append(f"storage type: {definition.storage_type} / {NESTED}")
    if len(differences) > SHOWN:
        differences[SHOWN:] = [f"{len(differences) - SHOWN} others"]
    return "; ".join(differences) or "the same columns in other bytes"


def _column(fs: Fs, expected: Expected, column: Column, names: Sequence[str], *, deep: bool) -> Iterator[Finding]:
    path = expected.directory / column.files[0]
    try:
        written = committed_column(fs, path, column)
        yield from check_overflow(expected.directory / f"{column.name}{OVR}", written.prefix, names)
        yield from check_prefix(path, written.prefix)
        if deep:
            yield from check_values(fs, expected, written.column)
    except (SparkhavenError, OSError) as error:
        if "shorter than its committed length" not in str(error):  # reported with the length of the file
            yield from_error(error, path)


def check_overflow(path: Path, prefix: Prefix, names: Collection[str]) -> Iterator[Finding]:
    """The grouping file of a column is there if, and only if, its overflow flag says so."""
    if prefix.overflow and path.name not in names:
        yield finding("E227", path, expected="the file, as the overflow flag is TRUE", found="nothing")
    if not prefix.overflow and path.name in names:
        yield finding("E228", path, expected="overflow flag TRUE", found="FALSE")


def check_prefix(path: Path, prefix: Prefix) -> Iterator[Finding]:
    """What readers accept in a prefix and our writers never write."""
    if prefix.unknown:
        yield finding("N212", path, expected="none", found=", ".join(prefix.unknown))
    if prefix.byte_order != LITTLE:
        yield finding("N213", path, expected=LITTLE, found=prefix.byte_order)


def _parquet(fs: Fs, schema: TableSchema, expected: Expected, *, deep: bool) -> Iterator[Finding]:
    """Footer and columns of ``table.parquet``, whose length and, if ``deep``, checksum are right; ``deep``: values."""
    path = expected.directory / PARQUET
    try:
        opened = open_parquet(fs, expected.directory, {PARQUET: expected.files[PARQUET].size}, expected.rows)
        named = sorted(opened.found.footer.indexes.values())
    except (SparkhavenError, OSError) as error:
        yield from_error(error, path)
        return
    for name in named if expected.vouched else ():  # no record has the indexes of another location
        if name not in expected.indexes:
            yield finding("E252", path, expected=", ".join(sorted(expected.indexes)) or "no index", found=name)
    for column in (column.at(expected.named_by) for column in schema.stored):
        try:
            opened.column(column)
            if deep and in_parquet(expected.files):
                yield from check_values(fs, expected, column)
        except (SparkhavenError, OSError) as error:
            yield from_error(error, path)


def _indexes(
    fs: Fs, schema: TableSchema, expected: Expected, damaged: Collection[str], *, deep: bool
) -> Iterator[Finding]:
    """Files of indexes, and if ``deep`` whether they are those of the rows, whose files are not ``damaged``."""
    tops = sorted({name.partition("/")[0] for name in expected.indexes})
    sound = set(tops)
    for name, state in sorted(expected.indexes.items()):
        file = CommittedFile(expected.directory / name, state, whole=True)
        again = f"{next_steps.merge_again_at(file.path)}. Rows are read without the index"
        found = [*check_file(fs, file, deep_crc(deep), hint=again)]
        yield from found
        if found:
            sound.discard(name.partition("/")[0])
    for top in tops if deep and not damaged else ():
        if top in sound and top.startswith(INDEX):
            yield from check_index_rows(fs, schema, expected, top, sidecar=SIDECARS.partition("/")[0] in sound)
    for top in tops:
        for path in files_below(fs, expected.directory / top):
            if str(path.relative_to(expected.directory)) not in expected.indexes:
                yield finding("W207", path, "file that belongs to no index")


def _strays(fs: Fs, schema: TableSchema, expected: Expected, names: Sequence[str]) -> Iterator[Finding]:
    overflow = {column.stem(expected.named_by) + OVR for column in schema.columns}
    indexed = {path.partition("/")[0] for path in expected.indexes}
    ours = {*expected.files, *overflow, TABLE_SIZE, OWNER, TABLE_DEFINITION, f"{schema.name}.tbl"}
    for name in names:
        if name in ours:
            continue
        path = expected.directory / name
        if name in indexed or (not expected.indexes and name.startswith((INDEX, SIDECARS.split("/")[0]))):
            continue  # of an index that no record names, which readers ignore
        if expected.truncated and name.endswith((".dat", ".sym", ".sym.bytes", ".bytes")):
            continue  # kept until no reader can use them
        there = f"{(stat := fs.stat(path)) and stat.size} bytes"
        hint = next_steps.RECOVER if expected.tier == "intraday" else None
        yield finding("N208" if ".tmp-" in name else "W207", path, found=there, hint=hint)

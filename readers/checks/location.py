"""Read-only checks of one location: its record, its files, and with ``deep`` every byte of them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from sparkhaven.readers.checks.column_values import Expected, check_values
from sparkhaven.readers.checks.findings import CheckFinding, finding, from_error, other_checksum, shortened
from sparkhaven.readers.checks.parquet_location import check_indexes, check_parquet
from sparkhaven.readers.checks.published_size import RECOVER, LaterEpochs, check_record
from sparkhaven.readers.checks.sound_columns import is_sound
from sparkhaven.store.epochs.files.published_size import OWNER, TABLE_DEFINITION
from sparkhaven.store.errors import SparkhavenError
from sparkhaven.store.format.column.prefix import LITTLE, Prefix
from sparkhaven.store.format.parquet.location_files import INDEX, NAME, SIDECARS
from sparkhaven.store.format.table.definition import NESTED, Definition
from sparkhaven.store.format.table.table_size import NAME as TABLE_SIZE
from sparkhaven.store.format.table.tbl import definition_name
from sparkhaven.store.format.table.tbl_reader import decode_tbl
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.scan.checksums import checksum
from sparkhaven.store.scan.column_file import OVR, column_header, committed_column
from sparkhaven.store.schema.differences import column_differences
from sparkhaven.store.types.committed_columns import UNKNOWN, FileState
from sparkhaven.store.types.model import Column, TableSchema

SHOWN = 5  # differences that a message names
RESTORE = "restore the file from a copy, or roll the stream back to an epoch before the damage"
REMERGE = "merge the date again with --rewrite. Until then reads work without the grouping"
AGAIN = "remove the file, then run `sparkhaven recover`, which writes it again from the schema"


def check_location(
    fs: Fs,
    schema: TableSchema,
    expected: Expected,
    definitions: Collection[bytes],
    *,
    deep: bool,
    later: LaterEpochs | None = None,
) -> Iterator[CheckFinding]:
    """Findings of one location, file by file; a damaged file does not end the check.

    ``definitions`` are the contents that a ``table.tbl`` can have: those of all versions of the schema. ``later``:
    epochs that a running stream may have published since the state was loaded.
    """
    directory = expected.directory
    names = fs.names(directory)
    if not names:
        if not expected.truncated:
            yield finding(
                "error",
                directory,
                "location is missing",
                expected=f"{expected.rows} rows",
                found="nothing",
                hint=RESTORE,
            )
        return
    if expected.vouched:
        yield from check_record(fs, expected, names, later)
    every = (c.at(expected.named_by).within(expected.files) for c in (*schema.stored, *schema.retired) if c.files)
    columns = [c for c in every if c.files[0] in expected.files and c.files[0] in names]
    sound = {name for c in columns if deep and is_sound(fs, expected, c) for name in c.files}
    damaged: set[str] = set()
    unread: set[str] = set()
    for name, state in sorted(expected.files.items()):
        for defect in _file(fs, expected, name, state, unread, deep=deep and name not in sound):
            yield defect
            if defect.severity == "error":
                damaged.add(name)
    for column in columns:
        readable = unread.isdisjoint(column.files)  # else a mapping of it could end the process
        yield from _column(fs, expected, column, names, deep=deep and readable and column.files[0] not in sound)
    if NAME in expected.files and NAME not in damaged:
        yield from check_parquet(fs, schema, expected, deep=deep)
    yield from check_indexes(fs, schema, expected, damaged, deep=deep)
    yield from _definition(fs, schema, expected, names, definitions)
    yield from _strays(fs, schema, expected, names)


def _definition(
    fs: Fs, schema: TableSchema, expected: Expected, names: Sequence[str], definitions: Collection[bytes]
) -> Iterator[CheckFinding]:
    """The location's ``table.tbl`` against the schemas that were deployed; readers here use the deployed schema."""
    name = definition_name(names, schema.name)
    path = expected.directory / (name or TABLE_DEFINITION)
    intraday = expected.tier == "intraday"
    if name is None:
        if not expected.truncated and expected.vouched:
            hint = RECOVER if intraday else REMERGE
            yield finding("error", path, "definition is missing", expected=TABLE_DEFINITION, found="nothing", hint=hint)
        return
    try:
        data = fs.read(path)
        if data in definitions:
            return
        definition = decode_tbl(data, path)
    except (SparkhavenError, OSError) as error:
        failed = from_error(error, path)
        hint = AGAIN if intraday else REMERGE
        yield replace(failed, hint=hint) if isinstance(error, SparkhavenError) else failed
        return
    yield finding(
        "error" if expected.vouched else "note",
        path,
        "definition was never deployed for this table",
        expected=f"that of a version of {schema.full_name}",
        found=_different(definition, schema),
        hint=AGAIN if intraday else REMERGE,
    )


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


def _file(
    fs: Fs, expected: Expected, name: str, state: FileState, unread: set[str], *, deep: bool
) -> Iterator[CheckFinding]:
    """Length of one file, and its checksum. To ``unread`` comes the name of one that the system does not read."""
    path = expected.directory / name
    stat = fs.stat(path)
    if stat is None:
        yield finding(
            "error", path, "a committed file is missing", expected=f"{state.size} bytes", found="nothing", hint=RESTORE
        )
        return
    offset = 0
    if name.endswith(".dat"):
        try:
            offset = column_header(fs, path).data_offset
        except (SparkhavenError, OSError) as error:
            yield from_error(error, path)
            return
    length = offset + state.size
    if stat.size < length:
        yield shortened(path, stat.size, length, RESTORE)
        return
    if stat.size > length:
        yield finding(
            "warning",
            path,
            "uncommitted tail: readers ignore it, the next recovery truncates it",
            at=f"byte {length}",
            expected=f"{length} bytes",
            found=f"{stat.size} bytes",
            hint=RECOVER + " if no stream is running",
        )
    if deep and state.crc != UNKNOWN:
        try:
            crc = checksum(fs, path, offset, state.size)
        except (SparkhavenError, OSError) as error:
            if isinstance(error, OSError):
                unread.add(name)
            yield from_error(error, path)
            return
        if crc != state.crc:
            cause = "Committed bytes have changed"
            yield other_checksum(path, cause, (offset, length), (state.crc, crc), RESTORE)


def _column(fs: Fs, expected: Expected, column: Column, names: Sequence[str], *, deep: bool) -> Iterator[CheckFinding]:
    path = expected.directory / column.files[0]
    try:
        written = committed_column(fs, path, column)
        yield from _overflow(expected.directory, column, written.prefix, names)
        yield from _of_other_writers(path, written.prefix)
        if deep:
            yield from check_values(fs, expected, written.column)
    except (SparkhavenError, OSError) as error:
        if "shorter than its committed length" not in str(error):  # reported with the length of the file
            yield from_error(error, path)


def _overflow(directory: Path, column: Column, prefix: Prefix, names: Sequence[str]) -> Iterator[CheckFinding]:
    name = column.name + OVR
    if prefix.overflow and name not in names:
        yield finding(
            "error",
            directory / name,
            "the grouping file is missing",
            expected="the file, as the overflow flag is TRUE",
            found="nothing",
            hint=REMERGE,
        )
    if not prefix.overflow and name in names:
        yield finding(
            "error",
            directory / name,
            "there is a grouping file, but the overflow flag of the column is FALSE",
            expected="overflow flag TRUE",
            found="FALSE",
            hint=REMERGE,
        )


def _of_other_writers(path: Path, prefix: Prefix) -> Iterator[CheckFinding]:
    """What readers accept in a prefix and our writers never write."""
    hint = "nothing, if another program wrote the file. A merge writes the date without it"
    if prefix.unknown:
        keys = ", ".join(prefix.unknown)
        yield finding("note", path, "the prefix has keys that readers ignore", expected="none", found=keys, hint=hint)
    if prefix.byte_order != LITTLE:
        what = "the data are in the other byte order"
        yield finding("note", path, what, expected=LITTLE, found=prefix.byte_order, hint=hint)


def _strays(fs: Fs, schema: TableSchema, expected: Expected, names: Sequence[str]) -> Iterator[CheckFinding]:
    overflow = {column.stem(expected.named_by) + OVR for column in schema.columns}
    indexed = {path.partition("/")[0] for path in expected.indexes}
    for name in names:
        if (
            name in expected.files
            or name in overflow
            or name in (TABLE_SIZE, OWNER, TABLE_DEFINITION, f"{schema.name}.tbl")
        ):
            continue
        path = expected.directory / name
        if name in indexed or (not expected.indexes and name.startswith((INDEX, SIDECARS.split("/")[0]))):
            continue  # of an index that no record names, which readers ignore
        if expected.truncated and name.endswith((".dat", ".sym", ".sym.bytes", ".bytes")):
            continue  # kept until no reader can use them
        temporary = ".tmp-" in name
        yield finding(
            "note" if temporary else "warning",
            path,
            "left over from an interrupted replace" if temporary else "file that no epoch has committed",
            found=f"{(stat := fs.stat(path)) and stat.size} bytes",
            hint=RECOVER if expected.tier == "intraday" else f"`sparkhaven inspect {path}` shows it. Then remove it",
        )

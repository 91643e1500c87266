"""Read-only checks of a location in Parquet format: ``table.parquet``, and the files of its indexes.

Length and checksum of ``table.parquet`` are checked as those of every committed file. The witness of an index is the
merge record: size and checksum of each whole file.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path

from sparkhaven.readers.checks.column_values import Expected, check_values
from sparkhaven.readers.checks.findings import CheckFinding, finding, from_error, other_checksum
from sparkhaven.readers.checks.index_rows import check_index_rows
from sparkhaven.store.errors import SparkhavenError
from sparkhaven.store.format.parquet.location_files import INDEX, NAME, SIDECARS, in_parquet
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.walking import files_below
from sparkhaven.store.scan.checksums import checksum
from sparkhaven.store.scan.column_file import open_parquet
from sparkhaven.store.types.committed_columns import FileState
from sparkhaven.store.types.model import TableSchema

REMERGE = "merge the date again with --rewrite. Rows are read without the index"


def check_parquet(fs: Fs, schema: TableSchema, expected: Expected, *, deep: bool) -> Iterator[CheckFinding]:
    """Footer and columns of ``table.parquet``, whose length and, if ``deep``, checksum are right; ``deep``: values."""
    path = expected.directory / NAME
    try:
        opened = open_parquet(fs, expected.directory, {NAME: expected.files[NAME].size}, expected.rows)
        named = sorted(opened.found.footer.indexes.values())
    except (SparkhavenError, OSError) as error:
        yield from_error(error, path)
        return
    for name in named:
        if name not in expected.indexes:
            yield finding(
                "error",
                path,
                "the footer names an index that the merge record does not have",
                expected=", ".join(sorted(expected.indexes)) or "no index",
                found=name,
                hint="merge the date again with --rewrite",
            )
    for column in (column.at(expected.named_by) for column in schema.stored):
        try:
            opened.column(column)
            if deep and in_parquet(expected.files):
                yield from check_values(fs, expected, column)
        except (SparkhavenError, OSError) as error:
            yield from_error(error, path)


def check_indexes(
    fs: Fs, schema: TableSchema, expected: Expected, damaged: Collection[str], *, deep: bool
) -> Iterator[CheckFinding]:
    """Files of indexes, and if ``deep`` whether they are those of the rows, whose files are not ``damaged``."""
    tops = sorted({name.partition("/")[0] for name in expected.indexes})
    sound = set(tops)
    for name, state in sorted(expected.indexes.items()):
        try:
            found = [*_file(fs, expected.directory / name, state, deep=deep)]
        except (SparkhavenError, OSError) as error:
            found = [from_error(error, expected.directory / name)]
        yield from found
        if found:
            sound.discard(name.partition("/")[0])
    for top in tops if deep and not damaged else ():
        if top in sound and top.startswith(INDEX):
            yield from check_index_rows(fs, schema, expected, top, sidecar=SIDECARS.partition("/")[0] in sound)
    for top in tops:
        for path in files_below(fs, expected.directory / top):
            if str(path.relative_to(expected.directory)) not in expected.indexes:
                yield finding("warning", path, "file that belongs to no index", hint="inspect it, then remove it")


def _file(fs: Fs, path: Path, state: FileState, *, deep: bool) -> Iterator[CheckFinding]:
    stat, size = fs.stat(path), f"{state.size} bytes"
    if stat is None:
        yield finding("error", path, "a file of an index is missing", expected=size, found="nothing", hint=REMERGE)
    elif stat.size != state.size:
        what = "file of an index has another length than the merge wrote"
        yield finding("error", path, what, expected=size, found=f"{stat.size} bytes", hint=REMERGE)
    elif deep and (crc := checksum(fs, path, 0, state.size)) != state.crc:
        cause = "The index has changed since the merge"
        yield other_checksum(path, cause, (0, state.size), (state.crc, crc), REMERGE)

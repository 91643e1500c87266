"""Copies of locations of history, byte by byte, and the proof that a copy is what the merge record says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from sparkhaven.store.errors import CorruptFileError, ValidationFailedError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.open_files import COPY_CHUNK
from sparkhaven.store.io.walking import stats_below
from sparkhaven.store.merges.history import has_digests_of, renamed
from sparkhaven.store.merges.merge_records import MergeOutput
from sparkhaven.store.scan.checksums import checksum, crc32, file_state
from sparkhaven.store.types.committed_columns import FileState
from sparkhaven.store.types.model import TableSchema
from sparkhaven.writers.merge.sources.merge_source import MergeSource, check_crc
from sparkhaven.writers.validation.rows.date_rows import RowSet
from sparkhaven.writers.validation.rules.merge_rules import digest_rows_of

Sums = Mapping[str, FileState]
"""Size and CRC-32 of whole files, by their path below a directory."""


def size_of(fs: Fs, directory: Path) -> int:
    """Bytes of all files below a directory."""
    return sum(stat.size for _, stat in stats_below(fs, directory))


def copy_location(
    fs: Fs, source: Path, target: Path, on_copied: Callable[[int], object], *, link: bool = False
) -> dict[str, FileState]:
    """Copies all files of a location, not synced; the sums of what was read. ``on_copied`` receives bytes.

    ``link``: second names where the file system has them. FileNotFoundError: there is no such location.
    """
    names = [name for name, _ in stats_below(fs, source)]
    if not names:
        raise FileNotFoundError(2, "No such location", str(source))
    sums: dict[str, FileState] = {}
    for name in names:
        path = target / name
        fs.mkdirs(path.parent)
        if link and fs.hard_link(source / name, path):
            sums[name] = file_state(fs, source / name)
            on_copied(sums[name].size)
            continue
        stat = fs.stat(source / name)
        size, crc = stat.size if stat else 0, 0
        fs.write_new(path, b"")
        for offset in range(0, size, COPY_CHUNK):
            data = fs.read_range(source / name, offset, min(COPY_CHUNK, size - offset))
            fs.write_at(path, offset, data)
            crc = crc32(data, crc)
            on_copied(len(data))
        sums[name] = FileState(size, crc)
    return sums


def directories_of(target: Path, sums: Iterable[str]) -> set[Path]:
    """The directories of copied files, ``target`` among them."""
    return {parent for name in sums for parent in (target / name).parents if target in (parent, *parent.parents)}


def require_sums(fs: Fs, directory: Path, sums: Sums) -> None:
    """Reads files from the disk. CorruptFileError: one is missing, or has another size or checksum."""
    fs.drop_cached(directory / name for name in sums if fs.stat(directory / name) is not None)
    for name, state in sums.items():
        stat = fs.stat(directory / name)
        read = None if stat is None else FileState(stat.size, checksum(fs, directory / name, 0, stat.size))
        if read != state:
            raise CorruptFileError(
                "file has other content than was written",
                where=directory / name,
                expected=f"{state.size} bytes, CRC-32 {state.crc:08x}",
                found="nothing" if read is None else f"{read.size} bytes, CRC-32 {read.crc:08x}",
                hint="nothing was changed. Look at the disk of this path, then run it again",
            )


def require_output(fs: Fs, schema: TableSchema, value: str, directory: Path, output: MergeOutput) -> None:
    """Reads a location. CorruptFileError: a file is not that of the merge record. ValidationFailedError: other rows."""
    for name, state in output.files.items():
        check_crc(fs, directory / name, state, stream="")
    require_sums(fs, directory, output.indexes)
    source = MergeSource(directory, "", output.internal, 0, 0, 0, output.rows, output.rows, output.files)
    there, recorded = digest_rows_of(RowSet(fs, schema, value, (source,))), renamed(output.digests, schema.labels)
    differing = [name for name, digest in there.columns.items() if recorded.get(name, digest) != digest]
    whole = has_digests_of(schema, output.digests)
    if differing or (whole and there.rows != output.row_digest):
        what = f"values of column {differing[0]} are" if differing else "rows, all columns together, are"
        raise ValidationFailedError(
            f"{what} not those of the merge",
            where=directory,
            expected=f"digest {recorded[differing[0]] if differing else output.row_digest} over {output.rows:,} rows",
            found=there.columns[differing[0]] if differing else there.rows,
            hint=f"`sparkhaven verify {schema.full_name} --deep` looks at the original",
        )

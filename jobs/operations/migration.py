"""The on-disk forms of a table's files, and how old ones are brought to the newest.

A release reads every form that an earlier one wrote, so nothing has to be migrated. What is old is rewritten where the
file has a writer of its own: the log of a stream when it is opened, its checkpoint and head by a compaction at the same
floor, the schema history, the ledger of a quarantine, the location index. Of some kinds the content decides which form
is written (``BY_CONTENT``): then an earlier one is not old.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sparkhaven.jobs.operations.maintenance import open_log
from sparkhaven.readers.checks.location_index import stored_entries
from sparkhaven.store.epochs.reading.stream_state import list_streams
from sparkhaven.store.errors import UnsupportedVersionError
from sparkhaven.store.format.index.tlmi import VERSIONS as INDEX_VERSIONS
from sparkhaven.store.format.manifest import VERSION as MANIFEST_VERSION
from sparkhaven.store.format.parquet.trees import MANIFEST
from sparkhaven.store.framing.log_frames import (
    CHECKPOINT_MAGIC_3,
    HEAD_MAGIC_3,
    HEADER,
    LOG_MAGIC,
    REMOVALS_MAGIC,
    read_header,
    version,
)
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.merges.merge_records import MAGIC as MERGE_MAGIC
from sparkhaven.store.merges.merge_records import all_values, lock_table, refuse_older
from sparkhaven.store.merges.validations import MAGIC as VALIDATION_MAGIC
from sparkhaven.store.places import StreamPlace, TablePlace
from sparkhaven.store.quarantine.ledger import VERSION as LEDGER_VERSION
from sparkhaven.store.quarantine.ledger import read_ledger, write_ledger
from sparkhaven.store.schema.deployed.history import FORMAT, WIDENED, decode_history, encode_history
from sparkhaven.writers.merge.location_index import store_entries

REMOVALS, HISTORY, MERGES, TREE = "removals", "schema history", "merge record", "manifest of an extended tree"
CHECKPOINT, HEAD = "checkpoint", "head"
BY_CONTENT = {REMOVALS: 1, HISTORY: FORMAT, CHECKPOINT: 2, HEAD: 2}
"""Kinds whose content decides between several forms that are written, with the first of those."""


@dataclass(frozen=True, slots=True)
class FileForm:
    """Files of one kind in one form: its ``version``, that of the ``newest`` form, how many, and one of them."""

    kind: str
    version: int
    newest: int
    files: int
    path: Path

    @property
    def old(self) -> bool:
        """Whether this release writes such files no more."""
        return self.version < BY_CONTENT.get(self.kind, self.newest)


_Read = Callable[[Fs, Path], int]


def forms_of(place: TablePlace) -> list[FileForm]:
    """The forms of a table's files, by kind and version. UnsupportedVersionError: one is newer than this release."""
    counted: dict[tuple[str, int, int], list[Path]] = {}
    for kind, newest, path, read in _files(place):
        if place.fs.stat(path) is not None:
            counted.setdefault((kind, read(place.fs, path), newest), []).append(path)
    return [FileForm(*form, len(paths), paths[0]) for form, paths in sorted(counted.items())]


def _files(place: TablePlace) -> Iterator[tuple[str, int, Path, _Read]]:
    """Every file that says its form: kind, newest form, path, and how the form is read."""
    yield HISTORY, WIDENED, place.schema_history, _stated(HISTORY, "format", WIDENED)
    yield "location index", INDEX_VERSIONS[-1], place.metadata_index, _index
    yield TREE, MANIFEST_VERSION, place.extended / MANIFEST, _stated(TREE, "version", MANIFEST_VERSION)
    for stream in list_streams(place):
        one = place.of_stream(stream)
        framed = {
            "commit log": (LOG_MAGIC, one.stream_log),
            CHECKPOINT: (CHECKPOINT_MAGIC_3, one.stream_checkpoint),
            HEAD: (HEAD_MAGIC_3, one.stream_head),
            REMOVALS: (REMOVALS_MAGIC, one.stream_removals),
        }
        for kind, (magic, path) in framed.items():
            yield kind, version(magic), path, _framed(magic)
        ledger = "quarantine ledger"
        yield ledger, LEDGER_VERSION, one.stream_quarantine, _stated(ledger, "version", LEDGER_VERSION)
    for value in all_values(place):
        for name in place.fs.names(place.merges / value):
            path = place.merges / value / name
            if name.endswith(".json") and not name.startswith("."):
                yield MERGES, version(MERGE_MAGIC), path, _merge_record
            elif name.endswith(".validation"):
                yield "validation", version(VALIDATION_MAGIC), path, _framed(VALIDATION_MAGIC)


def _merge_record(fs: Fs, path: Path) -> int:
    form = _framed(MERGE_MAGIC)(fs, path)
    refuse_older(fs.read_range(path, 0, HEADER.size), path)
    return form


def _framed(magic: bytes) -> _Read:
    def read(fs: Fs, path: Path) -> int:
        stat = fs.stat(path)
        if stat is None or stat.size < HEADER.size:
            return version(magic)  # empty: nothing was written yet
        first = fs.read_range(path, 0, HEADER.size)
        same = first[:6] == magic[:6] and first[7:8] == magic[7:]
        if same and first[6] > magic[6]:
            raise newer(magic[3:6].decode(), path, version(magic), version(first))
        read_header(first, magic, path)
        return version(first)

    return read


def _stated(kind: str, key: str, newest: int) -> _Read:
    def read(fs: Fs, path: Path) -> int:
        content = json.loads(fs.read(path))
        stated = content.get(key, 1) if isinstance(content, Mapping) else 1
        if isinstance(stated, int) and stated > newest:
            raise newer(kind, path, newest, stated)
        return int(stated)

    return read


def _index(fs: Fs, path: Path) -> int:
    stated = int.from_bytes(fs.read_range(path, 4, 4), "big")
    if stated > INDEX_VERSIONS[-1]:
        raise newer("location index", path, INDEX_VERSIONS[-1], stated)
    return stated


def newer(kind: str, path: Path, known: int, stated: int) -> UnsupportedVersionError:
    """The error for a file that a later release wrote."""
    return UnsupportedVersionError(
        f"{kind} was written by a newer release",
        where=path,
        expected=f"version {known} at most, which this release writes",
        found=f"version {stated}",
        hint="install the release that wrote it. Nothing was changed",
    )


def migrate_table(place: TablePlace, forms: Sequence[FileForm]) -> None:
    """Rewrites old forms. LockLostError: a stream or a merge is running. Raises what opening a log raises."""
    old = {form.kind for form in forms if form.old}
    if old & {"commit log", CHECKPOINT, HEAD}:
        for stream in list_streams(place):
            _migrate_stream(place.of_stream(stream))
    if "quarantine ledger" in old:
        for stream in list_streams(place):
            one = place.of_stream(stream)
            ledger = read_ledger(one)
            if ledger is not None:
                write_ledger(one, ledger)
    if old & {HISTORY, "location index"}:
        with lock_table(place):
            if HISTORY in old:
                path = place.schema_history
                place.fs.replace(path, encode_history(decode_history(place.fs.read(path), path)))
            entries = stored_entries(place) if "location index" in old else None
            if entries is not None:
                store_entries(place, entries)


def _migrate_stream(place: StreamPlace) -> None:
    """Opening writes the log anew, a compaction at the same floor the checkpoint and the head."""
    kinds = (CHECKPOINT, CHECKPOINT_MAGIC_3, place.stream_checkpoint), (HEAD, HEAD_MAGIC_3, place.stream_head)
    stale = [_framed(magic)(place.fs, path) < BY_CONTENT[kind] for kind, magic, path in kinds if place.fs.stat(path)]
    with open_log(place) as log:
        if any(stale):
            log.rewrite_saved()

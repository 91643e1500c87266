"""Decoders of files beside the data: marks, notes, locks, caches, scratch of a batch, and commits of a Delta table."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, MutableMapping
from pathlib import Path

from sparkhaven.readers.checks.findings import Finding
from sparkhaven.store.epochs.files.published_size import read_mark
from sparkhaven.store.errors import CorruptFileError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.quarantine.ledger import decode_ledger

SHORT = 100  # bytes of a text that are shown


def owner_mark(fs: Fs, path: Path, facts: MutableMapping[str, object]) -> Iterator[Finding]:
    """The stream of a location. One that is torn counts for nothing once the location has its ``table.size``."""
    mark = read_mark(fs, path.parent) if path.name[0] == "." else None
    if mark is None:
        raise CorruptFileError(
            "mark of the owner names no stream", where=path, expected="a stream", found=_start(fs, path)
        )
    facts.update(stream=mark.stream, generation=mark.generation, whole=mark.whole)
    yield from ()


def ledger(fs: Fs, path: Path, facts: MutableMapping[str, object]) -> Iterator[Finding]:
    value, table, stream = decode_ledger(fs.read(path), path)
    facts.update(table=table, stream=stream, place=value.place, file=value.file, newest=value.newest, seen=value.seen)
    facts["dead"] = [list(pair) for pair in value.dead]
    yield from ()


def delta_commit(fs: Fs, path: Path, facts: MutableMapping[str, object]) -> Iterator[Finding]:
    """How many actions of each kind it has: one a line, each a JSON object with one key."""
    actions: Counter[str] = Counter()
    for number, line in enumerate(fs.read(path).splitlines(), 1):
        try:
            action = json.loads(line)
        except ValueError:
            action = None
        if not isinstance(action, dict) or len(action) != 1:
            raise CorruptFileError(
                "a line of the commit is no action",
                where=path,
                line=number,
                expected='{"add": ...}',
                found=line[:SHORT],
            )
        actions.update(list(action))
    facts.update(version=int(path.stem), **actions)
    yield from ()


def text(fs: Fs, path: Path, facts: MutableMapping[str, object]) -> Iterator[Finding]:
    """A file whose content no row depends on: it is only shown."""
    shown = _start(fs, path)
    if shown:
        facts["text"] = shown
    yield from ()


def _start(fs: Fs, path: Path) -> str:
    stat = fs.stat(path)
    return fs.read_range(path, 0, min(SHORT, stat.size if stat else 0)).decode("utf-8", "replace").strip()

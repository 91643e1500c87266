"""The state of a Delta table at its newest version, as the actions that a checkpoint of it would have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from sparkhaven.store.delta.checkpoint import read_checkpoint
from sparkhaven.store.delta.log import (
    LOG,
    Listing,
    damaged,
    data_path,
    deleted_rows,
    list_log,
    parse_actions,
    require_features,
    version_file,
)
from sparkhaven.store.io.fs import Fs

Body = Mapping[str, Any]
Action = tuple[str, Body]
NO_VERSION = -1


@dataclass(frozen=True, slots=True)
class DeltaSnapshot:
    """A table at ``version``, ``NO_VERSION`` before its first one; ``files`` and ``removed`` by absolute path.

    ``read`` names the files of the log that it was read from.
    """

    table: Path
    version: int = NO_VERSION
    read: tuple[Path, ...] = ()
    protocol: Body = field(default_factory=dict)
    metadata: Body = field(default_factory=dict)
    files: Mapping[Path, Body] = field(default_factory=dict)
    removed: Mapping[Path, Body] = field(default_factory=dict)
    transactions: Mapping[str, Body] = field(default_factory=dict)
    domains: Mapping[str, Body] = field(default_factory=dict)

    @property
    def configuration(self) -> Mapping[str, str]:
        return self.metadata.get("configuration") or {}

    def paths(self) -> list[Path]:
        """The data files, the oldest first, in the same order whenever it is asked."""
        return sorted(self.files, key=lambda path: (self.files[path]["modificationTime"], path))

    def after(self, actions: Iterable[Action]) -> DeltaSnapshot:
        state = _State(self)
        for kind, body in actions:
            state.take(kind, body)
        return state.snapshot(self.version + 1)


def read_snapshot(fs: Fs, table: Path) -> DeltaSnapshot:
    """The newest version of a table; of ``NO_VERSION`` where there is none.

    CorruptFileError for a damaged log, UnsupportedVersionError for a table that has to be read by other rules.
    """
    listing = list_log(fs, table)
    latest = listing.latest
    if latest is None:
        return DeltaSnapshot(table)
    paths = _files_up_to(table, listing, listing.checkpoint_before(latest), latest)
    state = _State(DeltaSnapshot(table, read=tuple(paths)))
    for path in paths:
        _read_into(state, fs, path)
    snapshot = state.snapshot(latest)
    if not snapshot.metadata or not snapshot.protocol:
        raise damaged(table / LOG, "no metaData or no protocol")
    features = frozenset(snapshot.protocol.get("readerFeatures") or ())
    require_features(table, snapshot.configuration, snapshot.protocol["minReaderVersion"], features)
    for path, body in snapshot.files.items():
        if body.get("deletionVector"):
            raise deleted_rows(path)
    return snapshot


def _files_up_to(table: Path, listing: Listing, base: int, latest: int) -> list[Path]:
    missing = next((number for number in range(base + 1, latest + 1) if number not in listing.versions), None)
    if missing is not None:
        raise damaged(version_file(table, missing), "no such file, although the log has later versions")
    checkpoint = [table / LOG / name for name in listing.checkpoints.get(base, ())]
    return [*checkpoint, *(version_file(table, number) for number in range(base + 1, latest + 1))]


def _read_into(state: _State, fs: Fs, path: Path) -> None:
    data, line = fs.read(path), 0
    try:
        if path.suffix == ".parquet":
            for kind, body in read_checkpoint(data):
                state.take(kind, body)
            return
        for number, kind, body in parse_actions(path, data):
            line = number
            state.take(kind, body)
    except (KeyError, TypeError, ValueError, NotImplementedError, OSError) as error:
        reason = str(error).partition("\n")[0] or type(error).__name__
        raise damaged(path, f"line {line}: {reason}" if line else reason) from error
    if not line:
        raise damaged(path, "no action")


class _State:
    """A snapshot that takes actions, by dictionaries of its own."""

    def __init__(self, base: DeltaSnapshot) -> None:
        self.files, self.removed = dict(base.files), dict(base.removed)
        self.transactions, self.domains = dict(base.transactions), dict(base.domains)
        self.protocol, self.metadata, self._base = base.protocol, base.metadata, base

    def take(self, kind: str, body: Body) -> None:
        match kind:
            case "add":
                path = data_path(self._base.table, body["path"])
                self.removed.pop(path, None)
                self.files[path] = body
            case "remove":
                path = data_path(self._base.table, body["path"])
                self.files.pop(path, None)
                self.removed[path] = body
            case "metaData":
                self.metadata = body
            case "protocol":
                self.protocol = body
            case "txn":
                self.transactions[body["appId"]] = body
            case "domainMetadata":
                self.domains[body["domain"]] = body

    def snapshot(self, version: int) -> DeltaSnapshot:
        dictionaries = self.files, self.removed, self.transactions, self.domains
        return DeltaSnapshot(self._base.table, version, self._base.read, self.protocol, self.metadata, *dictionaries)

"""Cached states of a table's streams: removing a year of dates reads each commit log once."""

from __future__ import annotations

from collections.abc import Iterable

from sparkhaven.store.epochs.reading.stream_state import StreamState, load_stream
from sparkhaven.store.epochs.state.tombstone import Removal
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName

Stamp = tuple[tuple[int, int] | None, ...]


class States:
    """One state per stream, reloaded only when another process has written to its logs.

    The caller holds the stream's commit lock, so that no commit comes in between.
    """

    def __init__(self, fs: Fs, layout: Layout, table: TableName) -> None:
        self._fs, self._layout, self._table = fs, layout, table
        self._known: dict[str, tuple[Stamp, StreamState]] = {}

    def of(self, stream: str) -> StreamState:
        """The newest committed state of a stream, with every removal."""
        stamp = self._stamp(stream)
        known = self._known.get(stream)
        if known is None or known[0] != stamp:
            known = self._known[stream] = (stamp, load_stream(self._fs, self._layout, self._table, stream))
        return known[1]

    def removed(self, stream: str, removals: Iterable[Removal]) -> None:
        """Applies removals that this process has just recorded under the same lock."""
        state = self._known[stream][1]
        for removal in removals:
            state.remove(removal)
        self._known[stream] = (self._stamp(stream), state)

    def _stamp(self, stream: str) -> Stamp:
        layout = self._layout
        parts = (layout.stream_log, layout.stream_checkpoint, layout.stream_removals)
        stats = (self._fs.stat(part(self._table, stream)) for part in parts)
        return tuple((stat.inode, stat.size) if stat else None for stat in stats)

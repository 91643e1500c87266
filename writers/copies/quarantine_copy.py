"""The quarantine of a stream in a snapshot: its Delta table at one version, and a ledger for the copied epoch.

Rows are written to quarantine before their epoch is committed, so a copy made after the pin has those of all epochs of
the snapshot. It may have rows of later ones, too. The ledger says that these are dead: readers leave them out, and the
next start of the stream removes them. The files of a Delta table never change, so they are linked.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from sparkhaven.store.delta.log import is_table
from sparkhaven.store.delta.snapshot import read_snapshot
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout
from sparkhaven.store.places import StreamPlace
from sparkhaven.store.quarantine.ledger import encode_ledger, read_ledger
from sparkhaven.writers.copies.file_copies import FileCopies, path_in
from sparkhaven.writers.quarantine.pending_changes import leftovers, rebuilt_ledger


def copy_quarantine(place: StreamPlace, target: StreamPlace, copies: FileCopies, state: StreamState) -> None:
    """Copies ledger and Delta table; streams of several tables that share one share it in the snapshot, too."""
    ledger = read_ledger(place)
    if ledger is None and not state.rejected:
        return
    default = place.layout.quarantine(place.stream)
    source = Path(ledger.place) if ledger is not None and ledger.place else default
    name = place.stream if source == default else f"{place.table}.{place.stream}"
    rebuilt = rebuilt_ledger(state, str(Layout(copies.home).quarantine(name)))
    new = replace(rebuilt, file=ledger.file if ledger is not None else "")
    copies.write(target.stream_quarantine, encode_ledger(new, str(place.table), place.stream))
    for requeue in leftovers(place, state)[0]:  # committed; the marks of their rows may come before the next read
        copies.link(requeue.path, target.requeues / requeue.path.name)
    if is_table(place.fs, source):
        snapshot = read_snapshot(place.fs, source)
        for path in (*snapshot.read, *snapshot.files):
            if path_in(path, source):
                copies.link(path, target.layout.quarantine(name) / path.relative_to(source))


def move_ledgers(places: Iterable[StreamPlace], layout: Layout) -> None:
    """Lets the ledgers of staged streams name the quarantines of the root that they are restored into."""
    for place in places:
        ledger = read_ledger(place)
        if ledger is not None:
            moved = replace(ledger, place=str(layout.quarantine(Path(ledger.place).name)))
            place.fs.replace(place.stream_quarantine, encode_ledger(moved, str(place.table), place.stream))


def same_quarantine(fs: Fs, one: Path, other: Path) -> bool:
    """Whether two directories have copies of one Delta table, by its id."""
    if not is_table(fs, one) or not is_table(fs, other):
        return False
    return read_snapshot(fs, one).metadata.get("id") == read_snapshot(fs, other).metadata.get("id")

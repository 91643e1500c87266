"""Read-only checks of a table's location index."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from sparkhaven.readers.checks.findings import CheckFinding, Severity, finding, from_error
from sparkhaven.store import next_steps
from sparkhaven.store.errors import SparkhavenError
from sparkhaven.store.format.index.tlmi import IndexEntry, decode_tlmi
from sparkhaven.store.format.table import table_size
from sparkhaven.store.merges.merge_records import MergeRecord
from sparkhaven.store.places import TablePlace
from sparkhaven.store.scan.seen_history import SeenDate


def check_index(
    place: TablePlace,
    records: Mapping[str, MergeRecord],
    dates: Mapping[str, SeenDate],
    times: Mapping[str, Collection[int]],
    *,
    merging: bool,
) -> Iterator[CheckFinding]:
    """The location index of a table against its merge records, and ``dates``: the history of each as it stands.

    ``times``: by date, when a merge of it began. While one is ``merging``, or was killed, the index is not written yet.
    """
    severity: Severity = "warning" if merging else "error"
    path, reindex = place.metadata_index, next_steps.index_again(place.table)
    if place.fs.stat(path) is None:
        if records:
            yield finding(severity, path, "location index is missing", hint=reindex)
        return
    try:
        index = {(e.key.internal, e.key.value): e for e in decode_tlmi(place.fs.read(path), path, keep_empty=True)}
    except (SparkhavenError, OSError) as error:
        failed = from_error(error, path)
        yield replace(failed, hint=reindex) if isinstance(error, SparkhavenError) else failed
        return
    entries = {key: entry.rows for key, entry in index.items() if entry.rows}
    wanted = {(o.internal, seen.value): o.rows for seen in dates.values() for o in seen.locations}
    for key in sorted({*entries, *wanted}):
        if entries.get(key) == wanted.get(key):
            yield from _entry_time(place, path, index[key], times)
        else:
            yield finding(
                severity,
                path,
                "location index differs from the locations of history",
                at=f"internal partition {key[0]}, {key[1]}",
                expected=wanted.get(key, "no entry"),
                found=entries.get(key, "no entry"),
                hint=reindex,
            )


def _entry_time(
    place: TablePlace, path: Path, entry: IndexEntry, times: Mapping[str, Collection[int]]
) -> Iterator[CheckFinding]:
    """The time of an entry is that of a merge of its date, or of the location's own record."""
    if entry.modified_ms in times.get(entry.key.value, ()):
        return
    with suppress(SparkhavenError, OSError):  # reported with the location
        size = table_size.load(place.fs, place.history_location(entry.key))
        if size is None or size.last_modified_ms == entry.modified_ms:
            return
        yield finding(
            "error",
            path,
            "location index has a time of no merge",
            at=f"internal partition {entry.key.internal}, {entry.key.value}",
            expected=size.last_modified_ms,
            found=entry.modified_ms,
            hint=next_steps.index_again(place.table),
        )

"""How many bytes a merge of some dates is about to write, from the commit logs and merge records alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.merges.merge_records import merged_rows, newest
from sparkhaven.store.places import TablePlace


def coming_bytes(
    place: TablePlace, states: Sequence[StreamState], values: Iterable[str], *, rewrite: bool, copies: int
) -> int:
    """Bytes of the rows of these dates that are not merged, and with ``rewrite`` those of history too.

    ``copies``: how often a merge writes each row, once for column files and once for Parquet.
    """
    size = 0
    for value in values:
        record = newest(place, value)
        merged = merged_rows(record)
        for state in states:
            for location in state.locations.of_date(value):
                start = merged.get((state.stream, location.key.internal, location.since), 0)
                rows = location.rows - start
                if rows > 0 and not location.truncated:
                    size += sum(file.size for file in location.files.values()) * rows // location.rows
        if rewrite and record is not None:
            size += sum(file.size for output in record.outputs for file in output.files.values()) // copies
    return size * copies

"""Rows of StorageLog: bytes of a table by volume."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from sparkhaven.jobs.logs.log_tables import LogRow, named
from sparkhaven.store.epochs.reading.stream_state import newest_states
from sparkhaven.store.layout import without_generation
from sparkhaven.store.places import TablePlace
from sparkhaven.store.scan.ranges import Slice, Snapshot, make_plan
from sparkhaven.store.schema.deployed.deploy import load_deployed

LISTED = 100  # locations of a table whose files a merge looks at for its rows of StorageLog


def storage_rows(place: TablePlace, listed: int = LISTED) -> Iterator[LogRow]:
    """A row a volume; raises the errors of reading the table.

    Of a table of more than ``listed`` locations no files are looked at: then ``Bytes`` has the committed bytes,
    ``Files`` and ``WasteBytes`` are null.
    """
    slices = _committed(place)
    if len(slices) > listed and place.fs.stat(place.extended) is None:
        sizes = Counter({"intraday": 0})
        for slice_ in slices:
            volume = "intraday" if slice_.tier == "intraday" else without_generation(slice_.key.internal)
            sizes[volume] += sum(state.size for state in slice_.files.values())
        for volume, size in sorted(sizes.items()):
            yield {**named(place.table), "Volume": volume, "Bytes": size}
        return
    from sparkhaven.readers.table_stats import disk_use  # which a small merge of a large table does not need

    use = disk_use(place, most=listed, partly=False)
    for volume, (size, wasted) in sorted(use.volumes.items()):
        looked_at = {} if use.unlisted else {"Files": use.files.get(volume, 0), "WasteBytes": wasted}
        yield {**named(place.table), "Volume": volume, "Bytes": size, **looked_at}


def _committed(place: TablePlace) -> list[Slice]:
    """Every committed location, whether the same rows are merged or not."""
    snapshot = Snapshot(place.table, load_deployed(place), tuple(newest_states(place)))
    return [slice_ for tier in ("intraday", "history") for slice_ in make_plan(place, snapshot, tier=tier).slices]

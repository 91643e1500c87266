"""A rollback stops at what history holds: rows that a merge has counted cannot leave the stream under it."""

from __future__ import annotations

from collections.abc import Iterable

from store.epochs.replay import StreamState
from store.errors import TableExistsError
from store.fs import Fs
from store.layout import Layout, LocationKey, TableName
from store.merges import newest


def require_unmerged(
    fs: Fs, layout: Layout, table: TableName, before: StreamState, target: StreamState, touched: Iterable[LocationKey]
) -> None:
    """TableExistsError if ``target`` has fewer rows of a touched location than the newest merge of its date took in.

    Reads one merge record for each date touched.
    """
    by_date: dict[str, list[LocationKey]] = {}
    for key in touched:
        by_date.setdefault(key.value, []).append(key)
    for value, keys in sorted(by_date.items()):
        record = newest(fs, layout, table, value)
        taken = {} if record is None else {(i.stream, i.internal, i.since): i.rows for i in record.inputs}
        for key in keys:
            now, then = before.locations[key], target.locations.get(key)
            merged = taken.get((before.stream, key.internal, now.since), 0)
            rows = then.rows if then is not None and then.since == now.since else 0
            if rows < merged:
                raise TableExistsError(
                    "the rollback would take back rows that are in history",
                    where=layout.merges(table) / value,
                    expected=f"at least the {merged} merged rows of {key.internal}/{value}",
                    found=f"{rows} rows at epoch {target.epoch}",
                    hint="go back only to an epoch from the merged one on; `epochs show --epoch N` tells its rows",
                )

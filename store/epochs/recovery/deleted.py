"""Locations that were merged and deleted after the log was copied: the log has them, the disk does not.

History has their rows, so nothing is lost. A log that was restored from before the removal has to forget them.
"""

from __future__ import annotations

from pathlib import Path

from sparkhaven.store.epochs.recovery.set_aside import aside_of
from sparkhaven.store.epochs.state.log_values import LocationState
from sparkhaven.store.layout import LocationKey, TableName
from sparkhaven.store.merges.merge_records import MergeInput
from sparkhaven.store.places import TablePlace


def gone_after_merge(place: TablePlace, location: LocationState | None, taken: MergeInput) -> bool:
    """Whether a merge has all rows of a location whose directory is not there, and that was not set aside."""
    if location is None or location.truncated or location.since != taken.since or taken.rows < location.rows:
        return False
    directory = place.intraday_location(location.key)
    return place.fs.stat(directory) is None and place.fs.stat(aside_of(directory, location.since)) is None


def words_of(table: TableName, key: LocationKey, taken: MergeInput, log: Path) -> tuple[str, str, str, str]:
    """What to say of a log that has such a location: the error, what was expected and found, and what to do."""
    return (
        f"the commit log of stream {taken.stream!r} is older than the removal of {key.internal}/{key.value}. History"
        " has its rows",
        f"a log and removals without {key.internal}/{key.value}, whose directory is gone since its merge",
        f"{taken.rows} rows of it in {log}",
        f"stop the stream. Restore {log.name} with its .checkpoint and .removals from the newest copy of {log.parent}."
        f" Without one, `sparkhaven recover {table} {taken.stream} --from-locations` goes on with the rows of history."
        " Nothing was changed or deleted",
    )

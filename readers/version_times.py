"""When versions of a schema were in use, as far as records of the table tell."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from sparkhaven.store.epochs.reading.stream_state import list_streams, load_stream
from sparkhaven.store.errors import SparkhavenError
from sparkhaven.store.merges.history import load_history
from sparkhaven.store.merges.merge_records import all_values
from sparkhaven.store.places import TablePlace
from sparkhaven.store.types.frozen import frozen


@frozen
class VersionUse:
    """First and last time (ms since the epoch) at which rows are known to be written by a version."""

    first_ms: int
    last_ms: int


def version_uses(place: TablePlace) -> Mapping[int, VersionUse]:
    """By version, of locations and merges. A damaged record tells nothing: ``verify`` reports it."""
    times: dict[int, list[int]] = {}
    for stream in list_streams(place):
        with suppress(SparkhavenError, OSError):
            for location in load_stream(place.of_stream(stream)).locations.values():
                if location.time_ms:
                    times.setdefault(location.schema_version, []).append(location.time_ms)
    for value in all_values(place):
        with suppress(SparkhavenError, OSError):
            for record in load_history(place, value).complete:
                times.setdefault(record.schema_version, []).append(record.time_ms)
    return {version: VersionUse(min(moments), max(moments)) for version, moments in times.items()}

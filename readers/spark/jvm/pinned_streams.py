"""What Spark's JVM must know of a snapshot to see whether it still holds: a part of the plan's head.

``merges`` is the directory of the table's merge records. ``streams`` are objects:

``stream``, ``epoch``      its name, and the pinned epoch
``log``, ``checkpoint``, ``removals``   paths
``logSeen``, ``removalsSeen``  what the two files were when they were read: [device, inode, size, time of modification,
                           time of the last change (ns)], or null
``last``, ``mark``         offset of the last known record of the log, its first eight bytes in hexadecimal (or empty)
``removalsEnd``            place after the last known removal
``restored``               the older epoch that a rollback has gone back to since the pinned one, or null
``removed``                of each location that was removed the last removal: [internal, value, since, made, phase]
"""

from __future__ import annotations

from collections.abc import Iterable

from sparkhaven.store.epochs.pins import Pin
from sparkhaven.store.io.stat import Stat
from sparkhaven.store.places import TablePlace


def pinned_streams(place: TablePlace, pins: Iterable[Pin]) -> dict[str, object]:
    """The part about the streams of a table at its place; ``pins``: of those that the plan has slices of."""
    return {"merges": str(place.merges), "streams": [_stream(place, pin) for pin in pins]}


def _stream(place: TablePlace, pin: Pin) -> dict[str, object]:
    paths, watched = place.of_stream(pin.state.stream), pin.watched()
    return {
        "stream": pin.state.stream,
        "epoch": pin.state.epoch,
        "log": str(paths.stream_log),
        "checkpoint": str(paths.stream_checkpoint),
        "removals": str(paths.stream_removals),
        "logSeen": _identity(watched.log_seen),
        "removalsSeen": _identity(watched.removals_seen),
        "last": watched.last[0],
        "mark": watched.last[1].hex(),
        "removalsEnd": watched.removals_end,
        "restored": watched.restored,
        "removed": [
            [location.key.internal, location.key.value, location.since, location.made_ms, phase.value]
            for location, phase in watched.removed
        ],
    }


def _identity(stat: Stat | None) -> list[int] | None:
    return None if stat is None else [stat.device, stat.inode, stat.size, stat.mtime_ns, stat.ctime_ns]

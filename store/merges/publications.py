"""Dates that are being published: their locations may be in the location index, though their merge record is not there.

``<merges of the table>/.publishing`` has an empty directory for each such date. *Writer.* Under the table's lock: made
and synced before the index is written, removed once the record is stored. A killed merge leaves it; the next one that
publishes the date removes it. One that is left behind costs whoever opens the table a look at the records of the date.
*Reader.* Looks here after it has read the index.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from sparkhaven.store.places import TablePlace


def _directory(place: TablePlace) -> Path:
    return place.merges / ".publishing"


def dates_in_publication(place: TablePlace) -> list[str]:
    """The partition values of dates whose records may be behind the index, sorted."""
    return place.fs.names(_directory(place))


def begin_publication(place: TablePlace, values: Iterable[str]) -> None:
    """From now on who opens the table looks at the records of these dates. The caller holds the lock of the table."""
    directory = _directory(place)
    for value in values:
        place.fs.mkdirs(directory / value)
    place.fs.sync_dirs([directory, directory.parent])


def end_publication(place: TablePlace, values: Iterable[str]) -> None:
    """The records of these dates count, and the index names their locations."""
    directory = _directory(place)
    for value in values:
        place.fs.rmdir(directory / value)

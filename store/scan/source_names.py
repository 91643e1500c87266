"""Sources that a read or a removal names: internal partitions, by the value from the data or by the directory name.

The directory of a value is its text with ``%XX`` for most signs (``store.layout.encode_internal``). A text that is
the directory name of one source and the value of another is refused: nothing says which one is meant.
"""

from __future__ import annotations

from collections.abc import Collection
from urllib.parse import unquote

from sparkhaven.store.errors import InvalidNameError, SettingsError, TableNotFoundError, near
from sparkhaven.store.layout import TableName, encode_internal
from sparkhaven.store.merges.merge_records import MergeRecord
from sparkhaven.store.places import TablePlace


def directories_of(source: str) -> tuple[str, ...]:
    """Names of directories that a source may mean: it as a directory name, then as a value."""
    try:
        encoded = encode_internal(source)
    except InvalidNameError:
        return (source,)
    return (source,) if encoded == source else (source, encoded)


def refuse_ambiguous_source(table: TableName, source: str, known: Collection[str]) -> None:
    """SettingsError for a directory name of one source that is the value of another one."""
    names = directories_of(source)
    if len(names) > 1 and all(name in known for name in names):
        directory, encoded = names
        raise SettingsError(
            f"{table} has two sources that {source!r} may mean",
            expected=f"{unquote(directory)!r} for directory {directory}, or {encoded!r} for directory {encoded}",
            found=repr(source),
            hint="name one of the two in this form",
        )


def directory_of(table: TableName, source: str, known: Collection[str]) -> str:
    """The directory name of a source, itself if no known one is meant. SettingsError where two are."""
    refuse_ambiguous_source(table, source, known)
    return next((name for name in directories_of(source) if name in known), source)


def refuse_unknown_sources(place: TablePlace, sources: Collection[str], known: set[str]) -> None:
    """TableNotFoundError for a source that no location of the table has; SettingsError for one that may mean two."""
    missing = [source for source in sources if known.isdisjoint(directories_of(source))]
    if missing:  # other dates may have it: only now is the directory worth a look
        known = known | set(place.fs.names(place.partitions))
    for source in sources:
        refuse_ambiguous_source(place.table, source, known)
    for source in missing:
        if known.isdisjoint(directories_of(source)):
            raise TableNotFoundError(
                f"{place.table} has no source {source!r}",
                expected=near(source, known),
                found=repr(source),
                hint=f"`sparkhaven stats {place.table}` lists what is there",
            )


def refuse_merged_sources(sources: Collection[str], record: MergeRecord) -> None:
    """SettingsError for a source whose rows are in a merged date: a part of the rows would be a wrong answer."""
    asked = {name for source in sources for name in directories_of(source)}
    outputs = {output.internal for output in record.outputs}
    for taken in record.inputs:
        if taken.internal in asked and taken.rows and taken.internal not in outputs:
            raise SettingsError(
                f"rows of source {taken.internal!r} cannot be distinguished: {record.value} is merged",
                where=f"{record.table} {record.value}, generation {record.generation}",
                expected=f"one of {sorted(outputs)}, or dates that are not merged",
                found=repr(taken.internal),
                hint="filter by a column with --where, or read --tier intraday",
            )

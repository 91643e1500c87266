"""``ImportSource`` blocks: the mapping of a source's fields to the columns of a table."""

from __future__ import annotations

from dataclasses import field

from sparkhaven.store.types.frozen import frozen


@frozen
class ImportColumn:
    """Mapping of one column."""

    name: str
    source_name: str | None = None
    default: str | None = None


@frozen
class ImportSource:
    """One block: type of the source, optional name, mappings by column."""

    type: str
    name: str | None
    columns: dict[str, ImportColumn] = field(default_factory=dict)

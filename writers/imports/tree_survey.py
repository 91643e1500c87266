"""What a tree has of each date, before anything is imported: files are opened, columns and types are checked."""

from __future__ import annotations

from collections.abc import Sequence

from sparkhaven.store.errors import TableNotFoundError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.scan.selection import Selection
from sparkhaven.store.types.frozen import frozen
from sparkhaven.store.types.model import TableSchema
from sparkhaven.writers.imports.column_leaf import open_leaf
from sparkhaven.writers.imports.foreign_values import STRICT, AllowedConversions
from sparkhaven.writers.imports.tree_leaves import FoundTree
from sparkhaven.writers.imports.tree_walk import FoundLeaf


@frozen
class Part:
    """What the tree has of one date: its leaves with rows of it."""

    value: str
    leaves: tuple[FoundLeaf, ...]
    rows: int
    bytes: int


def survey(
    fs: Fs, tree: FoundTree, schema: TableSchema, dates: Sequence[str] | None, options: AllowedConversions = STRICT
) -> list[Part]:
    """What there is to import, by date. SchemaMismatchError: a file has other columns or types.

    TableNotFoundError: the tree has no rows of a date that is asked for.
    """
    single = dates[0] if dates and len(dates) == 1 and ".." not in dates[0] else None
    selection = Selection.of(dates, None)
    leaves_by_date: dict[str, list[tuple[FoundLeaf, int, int]]] = {}
    for leaf in tree.leaves:
        reader = open_leaf(fs, leaf, schema, single, options)
        for value, rows in reader.counts().items():
            leaves_by_date.setdefault(value, []).append((leaf, rows, reader.size))
    for date in dates or ():
        if not any(Selection.of(date, None).takes_value(value) for value in leaves_by_date):
            raise TableNotFoundError(
                "the tree has no rows of this date",
                where=tree.root,
                expected=", ".join(sorted(leaves_by_date)[:5]) or "rows",
                found=date,
                hint="--dates names dates of the tree",
            )
    parts = [
        Part(value, tuple(leaf for leaf, _, _ in leaves), sum(n for _, n, _ in leaves), sum(n for _, _, n in leaves))
        for value, leaves in sorted(leaves_by_date.items())
        if selection.takes_value(value)
    ]
    if not parts:
        raise TableNotFoundError("the tree has no rows", where=tree.root, expected="rows", found="none")
    return parts

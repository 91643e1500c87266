"""Tables of two roots, compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from sparkhaven.readers.arrow.opening import known_tables, open_table
from sparkhaven.readers.arrow.snapshot import pinned_of
from sparkhaven.readers.compare import (
    EpochRange,
    TableComparison,
    added_rows,
    compare_epochs,
    compare_tables,
)
from sparkhaven.store.errors import SettingsError, SparkhavenError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.read_only_roots import require_database
from sparkhaven.store.layout import INTERNAL_NAMESPACE, Layout, TableName
from sparkhaven.store.places import TablePlace


@dataclass(frozen=True, slots=True)
class ComparisonRequest:
    """What is compared. ``names``: default: all tables but log tables. ``named``: most different rows of each side.

    ``epochs``: only what these epochs of one table have added, ``[STREAM=]A..B``. ``every_row``: also where digests
    are recorded.
    """

    names: Sequence[str] = ()
    every_row: bool = False
    epochs: str | None = None
    named: int = 20


@dataclass(frozen=True, slots=True)
class ComparedTable:
    """A table of both roots, compared; ``only`` "here" or "there", or why it could not be compared."""

    table: TableName
    compared: TableComparison | None = None
    only: str | None = None
    error: SparkhavenError | None = None

    @property
    def equal(self) -> bool:
        """Whether both roots have the same rows of it."""
        return self.compared is not None and self.compared.equal


def compare_roots(
    here: Layout, other_root: Path, asked: ComparisonRequest, progress: Callable[[str], None]
) -> Iterator[ComparedTable]:
    """Compares table by table: an error of one does not stop the others.

    Before any: TableNotFoundError: there is no database. SettingsError: epochs without one table, or no such range.
    """
    require_database(other_root, "check OTHER_ROOT")
    epochs = None if asked.epochs is None else EpochRange.parse(asked.epochs)
    if epochs is not None and len(asked.names) != 1:
        raise SettingsError(
            "--epochs is given without one table", expected="one NS.T", found=" ".join(asked.names) or "none"
        )
    layouts = here, Layout(other_root.absolute())
    sides = [set(known_tables(Fs(), layout)) for layout in layouts]
    chosen = {TableName.parse(name) for name in asked.names} or {
        table for table in sides[0] | sides[1] if table.namespace != INTERNAL_NAMESPACE
    }
    for table in sorted(chosen):
        try:
            if table in sides[0] ^ sides[1]:
                yield ComparedTable(table, only="here" if table in sides[0] else "there")
                continue
            if epochs is not None:
                added = [added_rows(TablePlace(Fs(), layout, table), epochs) for layout in layouts]
                compared = compare_epochs(*added, limit=asked.named, every_row=asked.every_row, progress=progress)
            else:
                mine, theirs = (pinned_of(open_table(layout.root, str(table))) for layout in layouts)
                compared = compare_tables(mine, theirs, limit=asked.named, every_row=asked.every_row, progress=progress)
        except SparkhavenError as error:
            yield ComparedTable(table, error=error)
        else:
            yield ComparedTable(table, compared)

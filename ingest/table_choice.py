"""Rows of a feed to tables: the field that decides is decoded first, alone, then each row by the rules of its table.

So a row becomes what it would in a feed that has the rows of its table alone: no column of another table is looked at,
and a field may have another type in each. Rows that cannot be read as far as that field, and rows of no table, are
rejected by one table (``TableRoutes.refusing``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from sparkhaven.ingest.bad_rows import BadRow, Rejects, Unit, bad_row
from sparkhaven.ingest.spec.stream_spec import BadRowBudget, StreamSpec, TableRoutes, Target, TextForm
from sparkhaven.ingest.values.arrow_columns import Mask
from sparkhaven.ingest.values.refusals import Refusal
from sparkhaven.ingest.values.typed_rows import Ints, TypedRows
from sparkhaven.store.errors import listed
from sparkhaven.store.quarantine.rejected_rows import Reason
from sparkhaven.store.types.datatypes import data_type
from sparkhaven.store.types.model import Column, Kind, Storage, TableSchema

UNROUTED = "unrouted"
"""Count of rows that no table takes, and that the stream file ignores."""

_ANY = BadRowBudget(max_rows=2**62, max_fraction=1.0)
_NO_TABLE = -1


@dataclass(frozen=True, slots=True)
class TableRows:
    """One table that a split is decoded for: its rules, and where its rejected rows go."""

    spec: StreamSpec
    schema: TableSchema
    rejects: Rejects


def routing_target(routes: TableRoutes) -> Target:
    """The field that decides, as a column of texts."""
    name = routes.column or routes.kind
    column = Column(name, data_type("String"), Kind.NORMAL, Storage.NONE, -1, "UTF_8")
    return Target(column, name, "iso", None, None, False, form=TextForm(as_text=True))


def counting(spec: StreamSpec, routes: TableRoutes) -> StreamSpec:
    """The spec as decoders of its rows take it: the field that decides is used, also where no column has it."""
    return replace(spec, ignore=(*spec.ignore, routes.column)) if routes.column else spec


class TableChoice:
    """Chooses the table of each row of a split; ``tables`` are those that it is decoded for, by number.

    ``probe`` takes what is rejected while the field that decides is decoded; ``numbers_of`` gives that to its table.
    """

    def __init__(self, routes: TableRoutes, tables: Mapping[int, TableRows], file: str, unit: Unit) -> None:
        self._routes, self._tables, self._file, self._unit = routes, tables, file, unit
        self._found: list[BadRow] = []
        self.probe = Rejects(_ANY, sink=self._found.extend)

    def numbers_of(self, rows: TypedRows, payload: Callable[[int], bytes]) -> dict[int, Ints]:
        """The numbers of the rows of each table, ascending; the one column of ``rows`` has the texts that decide.

        Rejects what the decoder of the column has rejected, and the rows of no table.
        """
        texts = rows.columns[0]
        chosen = _chosen(texts, self._routes)
        for number, table in self._tables.items():
            table.rejects.source.leave(int(np.count_nonzero((chosen != number) & (chosen != _NO_TABLE))))
        none = np.flatnonzero(chosen == _NO_TABLE).tolist()
        if self._routes.ignore:
            self.probe.others[UNROUTED] += len(none)
            self.probe.source.leave(len(none))
        else:
            why = unrouted(self._routes)
            self.probe.add_all(self._refused(int(rows.numbers[row]), why, texts[row].as_py(), payload) for row in none)
        self.settle()
        return {table: rows.numbers[chosen == table] for table in self._tables}

    def settle(self) -> None:
        """Gives one table all that the probe has."""
        self.probe.flush()
        refusing = self._tables.get(self._routes.refusing)
        for table in self._tables.values():
            table.rejects.source.leave(self.probe.source.left + (0 if table is refusing else len(self._found)))
        self.probe.source.left = 0
        if refusing is not None:
            own = refusing.rejects
            own.read += len(self._found)
            own.others.update({name: count for name, count in self.probe.others.items() if count})
            own.add_all(self._found)
        self._found.clear()
        self.probe.others.clear()

    def _refused(self, number: int, why: Refusal, text: str | None, payload: Callable[[int], bytes]) -> BadRow:
        shown = "null" if text is None else text
        column = self._routes.column or None  # None: the topic decides
        return bad_row(self._file, number, column, why, shown, payload(number), unit=self._unit)


def unrouted(routes: TableRoutes) -> Refusal:
    """Why a row of no table is rejected."""
    return Refusal(Reason.NO_TABLE, listed(list(routes.table_of)))


def of_other_tables(rows: TypedRows, routes: TableRoutes) -> dict[int, tuple[Refusal, str]]:
    """The rows, by number, that are not of the routes' own table: why, and the text that decides."""
    others: dict[int, tuple[Refusal, str]] = {}
    for number, text, table in zip(
        rows.numbers.tolist(), rows.columns[0].to_pylist(), _chosen(rows.columns[0], routes).tolist(), strict=True
    ):
        if table != routes.own:
            why = unrouted(routes)
            if table != _NO_TABLE:
                own, other = routes.names[routes.own], routes.names[table]
                why = Refusal(Reason.NO_TABLE, f"a row of {own}", f"{other} takes it")
            others[number] = why, "null" if text is None else text
    return others


def lines_of(every: Ints, numbers: Ints) -> Mask:
    """Which of ``every`` number, ascending, is among ``numbers``."""
    wanted = np.zeros(len(every), np.bool_)
    wanted[np.searchsorted(every, numbers)] = True
    return wanted


def _chosen(texts: pa.Array, routes: TableRoutes) -> Ints:
    """The number of the table of each row, -1 for none."""
    rest = _NO_TABLE if routes.rest is None else routes.rest
    table_of = routes.table_of
    coded = texts if pa.types.is_dictionary(texts.type) else texts.dictionary_encode()
    tables: Sequence[int] = [table_of.get(text, rest) for text in coded.dictionary.to_pylist()]
    codes = coded.indices.fill_null(len(tables)).to_numpy(zero_copy_only=False)
    numbers: Ints = np.array([*tables, rest], np.int64)[codes]
    return numbers

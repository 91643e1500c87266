"""Which of its rows a feed gives to each of several tables: values only, checked with the stream file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

RouteKind = Literal["column", "topic"]


@dataclass(frozen=True, slots=True)
class TableRoute:
    """The rows of one table: those whose column, or topic, is one of ``values``; ``rest``: those of no other table."""

    table: str
    values: tuple[str, ...] = ()
    rest: bool = False


@dataclass(frozen=True, slots=True)
class TableRoutes:
    """The tables of a feed, in the order of the stream file. ``own``: the number of the one that a spec is of.

    ``kind``: rows go by the text of a field ``column`` of theirs, or by their topic. ``ignore``: rows of no table are
    left out and counted; otherwise they are bad rows.
    """

    tables: tuple[TableRoute, ...]
    own: int
    kind: RouteKind
    column: str = ""
    ignore: bool = False

    @property
    def rest(self) -> int | None:
        """The table that has the rows of no other."""
        return next((number for number, route in enumerate(self.tables) if route.rest), None)

    @property
    def refusing(self) -> int:
        """The table whose rejected rows have those that no table takes, or that cannot be read: the rest, or first."""
        return self.rest or 0

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(route.table for route in self.tables)

    @property
    def table_of(self) -> Mapping[str, int]:
        """The table of each value."""
        return {value: number for number, route in enumerate(self.tables) for value in route.values}

"""Which rows of a date a merge leaves out: all but one for each key."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, cast

Keep = Literal["first", "last"]


@dataclass(frozen=True, slots=True)
class DedupeRule:
    """Of the rows with equal ``keys`` the first or the last is kept, by ``order_by``, then in the order of the sources.

    ``upsert``: what history has of the date comes before the rows that are new, so that these win.
    """

    keys: tuple[str, ...]
    keep: Keep = "first"
    order_by: str | None = None
    upsert: bool = False

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column that it names."""
        return (*self.keys, *((self.order_by,) if self.order_by else ()))

    def words(self) -> str:
        """The options of ``merge`` that give it."""
        keys = ",".join(self.keys)
        how = f"--upsert {keys}" if self.upsert else f"--dedupe {keys} --keep {self.keep}"
        return how + (f" --order-by {self.order_by}" if self.order_by else "")

    def renamed(self, names: dict[str, str]) -> DedupeRule:
        """The rule under the names that its columns have now; ``names``: name of then -> name."""
        order_by = None if self.order_by is None else names.get(self.order_by, self.order_by)
        return DedupeRule(tuple(names.get(name, name) for name in self.keys), self.keep, order_by, self.upsert)

    def to_json(self) -> list[object]:
        """[keys, ``first`` or ``last``, order or null, upsert]."""
        return [list(self.keys), self.keep, self.order_by, self.upsert]

    @staticmethod
    def from_json(data: Any) -> DedupeRule:
        """TypeError, ValueError: it has another form."""
        keys, keep, order_by, upsert = data
        texts = isinstance(keys, list) and all(isinstance(name, str) for name in keys)
        if not keys or not texts or keep not in ("first", "last") or not isinstance(upsert, bool):
            raise ValueError(f"no rule of duplicates: {data}")
        if not isinstance(order_by, str | None):
            raise ValueError(f"no column to order by: {order_by}")
        return DedupeRule(tuple(keys), cast("Keep", keep), order_by, upsert)

"""A command of a history, and what commands are drawn by."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tests.crash.histories.apart import Fault
from tests.crash.histories.model import Model, Refused, Row
from tests.crash.histories.world import DATES, Site, World

if TYPE_CHECKING:
    from tests.crash.histories.history import History


REFUSED = (1, 2)
MAY_REFUSE = (*REFUSED, 3)  # of a command that depends on more than the model knows, as the room on a disk
Change = Callable[[World], object]


@dataclass(frozen=True)
class Operation:
    """A command of a history.

    ``changes`` are the steps that it takes in the model, each visible as a whole; Refused: the command has to refuse.
    ``done``: whether it was done below a root, for a command that would do it again. ``code``: how it ends.
    ``again``: how else, where one that was killed is run again. ``either``: it may also refuse, and change nothing,
    since the model does not know what files there are; or find nothing to do, where it has to refuse. ``after``: what
    follows once it was done.
    """

    name: str
    words: tuple[str, ...]
    changes: tuple[Change, ...] = ()
    done: Callable[[Path], bool] | None = None
    code: int = 0
    again: tuple[int, ...] = ()
    either: bool = False
    after: Callable[[World], object] = lambda world: None

    def states(self, world: World) -> list[World]:
        """The worlds after each step; empty if the command has to refuse."""
        states = [world]
        try:
            for change in self.changes:
                states.append(states[-1].copy())
                change(states[-1])
        except Refused:
            return []
        return states[1:] or [world]


Draw = Callable[[random.Random, Site, World], Operation | None]


def any_table(rng: random.Random, world: World) -> Model:
    return world.tables[rng.choice([*world.tables])]


def some_dates(rng: random.Random, site: Site, model: Model) -> list[str]:
    dates = model.dates() or [DATES[0]]
    if site.focus in dates and rng.random() < 0.6:
        return [site.focus]
    return [rng.choice(dates)] if rng.random() < 0.7 else dates


def has_no_rows(model: Model, date: str) -> bool:
    """Whether a date was merged, and history has no row of it."""
    record = model.record(date)
    return record is not None and not record.rows


def on(name: str, change: Callable[[Model], object], world: World) -> None:
    change(world.tables[name])


def some_rows(rng: random.Random, model: Model, dates: Iterable[str] | None = None) -> list[Row]:
    rows = model.visible()
    wanted = {*dates} if dates is not None else None
    rows = [row for row in rows if wanted is None or row["Date"] in wanted]
    return rng.sample(rows, min(len(rows), 40))


def any_stream(rng: random.Random, world: World) -> tuple[Model, str]:
    model = any_table(rng, world)
    return model, rng.choice([*model.streams])


@dataclass(frozen=True)
class Action:
    """A step that is more than one command on the root: it gets the history, and the fault that it may meet."""

    do: Callable[[History, random.Random, Fault | None], None]

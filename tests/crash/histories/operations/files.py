"""File operations on history, as anybody may do them: copy, move, remove, of what a root has, by no command of ours.

Readers show what stands, and `dates adopt` takes it for history. What each operation is, and what becomes of the rows,
is one table, ``tests.support.moves.operations``; its rows are done here to any table, after any steps.
"""

from __future__ import annotations

import random
import shutil
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from sparkhaven import open_table
from sparkhaven.errors import CorruptFileError
from sparkhaven.readers.arrow.snapshot import pinned_of
from sparkhaven.store.errors import HistoryWarning
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.places import TablePlace
from sparkhaven.writers.merge.publish.publish_phase import clean
from tests.crash.histories.apart import Fault
from tests.crash.histories.columns import Col, Rows, cells
from tests.crash.histories.model import Model, Row
from tests.crash.histories.operations.base import Draw, Operation
from tests.crash.histories.readers import check_copy, check_damage, check_table, require, shown
from tests.crash.histories.world import NAMESPACE
from tests.support.moves.operations import OPERATIONS, Spot
from tests.support.moves.operations import Operation as FileOperation

if TYPE_CHECKING:
    from tests.crash.histories.history import History

DONE = tuple(row for row in OPERATIONS if row.effect != "others" and row.object != "namespace")
ELSEWHERE = ("copy", "copy with nulls")
CLEANED = 86_400.0  # seconds after which replaced files may go
BETWEEN = 0.5  # of the operations, which a command meets before anything is adopted


@dataclass(frozen=True)
class Part:
    """A location of history, and its rows."""

    model: Model
    date: str
    internal: str
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Done:
    """An operation, where it is done, and the locations that it is about."""

    operation: FileOperation
    spot: Spot
    parts: tuple[Part, ...]

    @property
    def name(self) -> str:
        return self.operation.name

    def do(self) -> Path:
        """Does it; the root to look at."""
        return self.operation.do(self.spot)


def file_operation(history: History, rng: random.Random, fault: Fault | None, draws: Sequence[Draw]) -> None:
    """One of them; ``draws``: of commands that may meet what it has left."""
    site = history.site
    merged = [(model, date) for model in history.world.tables.values() for date in model.records if _rows(model, date)]
    if not merged:
        return
    operation = rng.choice(DONE)
    model, date = rng.choice(merged)
    for table in history.world.tables:  # else replaced files stand beside those that count
        [*clean(TablePlace(Fs(), Layout(site.root), TableName.parse(table)), lambda: time.time() + CLEANED)]
    parts = [*_parts(history)]
    chosen = rng.choice([part for part in parts if (part.model.name, part.date) == (model.name, date)])
    site.numbers += 1
    free = {"free": f"m{site.numbers}", "free_day": f"2023-{site.numbers // 28 % 12 + 1:02}-{site.numbers % 28 + 1:02}"}
    spot = Spot(site.root, site.fresh("other"), TableName.parse(model.name), date, chosen.internal, **free)
    columns = [column.name for column in model.columns if replace(spot, column=column.name).file.exists()]
    of_column = operation.object == "column"
    if of_column and not columns:
        return
    spot = replace(spot, column=rng.choice(columns)) if of_column else spot
    done = Done(operation, spot, tuple(part for part in parts if _is_about(operation.object, part, chosen)))
    history.tell(f"{done.name}: {model.name} {date} {chosen.internal} {spot.column if of_column else ''}")
    history.tally.done[done.name] += 1
    with _told(history):
        if operation.effect == "damaged":
            _damage(history, done)
        elif operation.effect == "whole":
            _whole(history, done)
        elif operation.effect in ELSEWHERE:
            _elsewhere(history, done)
        else:
            _in_place(history, rng, fault, done, draws)


def _rows(model: Model, date: str) -> bool:
    record = model.record(date)
    return record is not None and bool(record.rows)


def _parts(history: History) -> Iterator[Part]:
    """All locations of history, by a reader that has just shown the rows of the model as a whole."""
    for model in history.world.tables.values():
        dates = [date for date in model.records if _rows(model, date)]
        if not dates:
            continue
        opened = open_table(history.site.root, model.name)
        names = [column.name for column in model.columns]
        for date in dates:
            keys = {slice_.key.internal for slice_ in pinned_of(opened).plan(dates=[date], tier="history").slices}
            for internal in sorted(keys):
                found = opened.to_arrow(names, dates=[date], sources=[internal], tier="history")
                record = model.record(date)
                assert record is not None
                rows = _those(model.columns, record.rows, shown(model.columns, found))
                yield Part(model, date, internal, tuple(rows))


def _those(columns: Sequence[Col], rows: Sequence[Row], part: Rows) -> Iterator[Row]:
    """The rows that a location has, of those of its date."""
    left = Counter(part)
    values = cells(columns, [[row.get(column.key) for row in rows] for column in columns])
    for row, key in zip(rows, values, strict=True):
        if left[key]:
            left[key] -= 1
            yield row
    require(not +left, f"a location has rows that its date has not: {+left}")


def _is_about(what: str, part: Part, chosen: Part) -> bool:
    """Whether an operation on a location, or on more, is about a location."""
    same = part.model.name == chosen.model.name, part.date == chosen.date, part.internal == chosen.internal
    wanted = {
        "database": (),
        "storage partition": (2,),
        "date": (1, 2),
        "table": (0, 2),
        "location": (0, 1, 2),
        "column": (0, 1, 2),
    }[what]
    return all(same[number] for number in wanted)


@contextmanager
def _told(history: History) -> Iterator[None]:
    """Readers tell that no merge record vouches for rows; and `verify` finds that meanwhile."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", HistoryWarning)
        history.look.sound = False
        try:
            yield
        finally:
            history.look.sound = True


# --- what each does ------------------------------------------------------------------------------------------


def _damage(history: History, done: Done) -> None:
    """Reads fail, and name the file; then it is put back."""
    spot, kept = done.spot, history.site.fresh("kept")
    shutil.copytree(spot.location, kept)
    root = done.do()
    try:
        open_table(root, str(spot.table)).to_arrow()
    except CorruptFileError as error:
        require(spot.column in str(error), f"{done.name}: the error names no {spot.file.name}: {error}")
    else:
        require(False, f"{done.name}: a read does not need {spot.file}")
    shutil.rmtree(spot.location)
    shutil.copytree(kept, spot.location)


def _whole(history: History, done: Done) -> None:
    """The other root has what this one had; one that was moved goes back."""
    root = done.do()
    check_copy(history.look, root, history.world)
    if done.spot.root.exists():
        shutil.rmtree(root)
    else:
        root.rename(done.spot.root)


def _elsewhere(history: History, done: Done) -> None:
    """The other root has the rows of the locations, without a column that it lacks; also once they are adopted."""
    root, tables = done.do(), dict[str, Model]()
    with_nulls = done.operation.effect == "copy with nulls"
    for part in done.parts:
        table = tables.setdefault(part.model.name, Model(part.model.name, part.model.columns, part.model.indexes))
        lost = [column.key for column in table.columns if with_nulls and column.name == done.spot.column]
        before = table.record(part.date)
        rows = (*(before.rows if before else ()), *({**row, **dict.fromkeys(lost)} for row in part.rows))
        table.stands(part.date, rows)
    for sound in (False, True):
        history.look.sound = sound
        for table in tables.values():
            check_table(history.look, root, table, deep=sound)
            adopted = history.command(("dates", "adopt", table.name, "--accept-loss"), root=root)
            require(adopted.code == 0, f"dates adopt in {root.name} ends with {adopted.code}: {adopted.output}")
    shutil.rmtree(root)


def _in_place(history: History, rng: random.Random, fault: Fault | None, done: Done, draws: Sequence[Draw]) -> None:
    """Readers show what stands, a command may meet it, and it is adopted."""
    done.do()
    history.world = history.world.copy()
    for part in done.parts:
        model = history.world.tables[part.model.name]
        freed = tuple({**row, "Date": done.spot.free_day} for row in part.rows)
        match done.operation.effect:
            case "doubled":
                record = model.record(part.date)
                assert record is not None
                model.stands(part.date, (*record.rows, *part.rows))
            case "removed":
                _leave(model, part)
            case "copied":
                model.stands(done.spot.free_day, freed)
            case "renamed":
                _leave(model, part)
                model.stands(done.spot.free_day, freed)
    for table in history.world.written():
        check_table(history.look, history.site.root, table)
    if done.parts and rng.random() < BETWEEN:
        _between(history, rng, fault, rng.choice(done.parts), draws)
    names = [*dict.fromkeys(part.model.name for part in done.parts)]
    for name in names:
        history.perform(Operation("dates adopt", ("dates", "adopt", name, "--accept-loss")), fault)
    for internal in history.site.partitions:  # of which the operation may have taken the link
        history.perform(Operation("partitions add", ("partitions", "add", NAMESPACE, internal)), None)
    check_damage(history.site.root, None, deep=False)
    history.check_trees(names)
    for name in names:
        checked = history.command(("metadata", "validate", name))
        require(checked.code == 0, f"metadata validate of {name} ends with {checked.code}: {checked.output}")


def _leave(model: Model, part: Part) -> None:
    """A location goes from its date."""
    record = model.record(part.date)
    assert record is not None
    left = [*record.rows]
    for row in part.rows:
        left.remove(row)
    model.stands(part.date, left)


def _between(history: History, rng: random.Random, fault: Fault | None, part: Part, draws: Sequence[Draw]) -> None:
    """A command on one date, which may refuse what is not adopted."""
    focus, history.site.focus = history.site.focus, part.date
    for _ in range(6):
        operation = rng.choice(draws)(rng, history.site, history.world)
        if operation is not None and {part.model.name, part.date} <= {*operation.words}:
            history.perform(replace(operation, either=True), fault)
            for table in history.world.written():
                check_table(history.look, history.site.root, table)
            break
    history.site.focus = focus

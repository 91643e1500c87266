"""When a schema changes, and what readers and a night make of it: one function a moment, each for any change."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from sparkhaven.readers.arrow.opening import open_table
from sparkhaven.store.io.fs import Fs
from tests.support.commands import run
from tests.support.schemas.altered_table import AlteredTable
from tests.support.schemas.changes import CHANGES
from tests.support.schemas.doors import Before, arrow, look, shown_rows, sql_rows
from tests.support.schemas.killing import killed_at_step
from tests.support.streams.schema_site import TABLE

DEPLOYING = [f"schema-{step}:{when}" for step in ("history", "file") for when in ("before", "after")]
COMMITTING = ["log-open:after", "append:after", "commit-record:before", "log-append:after", "log-sync:after"]


def begun(table: AlteredTable, rows: int = 3) -> None:
    """A stream with the first columns, and its rows."""
    table.give(table.change.first)
    for _ in range(rows):
        table.put(table.change.first)
    table.ingest()


def steps(table: AlteredTable, rows: int = 1, *, anew: bool = True) -> None:
    """Each step: what a start says to its file, the command, and rows with the columns that hold then.

    ``anew``: one more row by a new stream, so that a location has files of the new columns only.
    """
    for number, step in enumerate(table.change.steps):
        before = Before.of(table)
        table.give(step.columns, table=step.table)
        if step.start is not None:
            table.refused_at_start(step.start)
            if step.refused is not None:
                table.refused_at_start(step.refused, "s", "--accept-schema")
        elif step.refused is None:
            table.ingest()
            table.took(step)
        if step.start is not None:
            table.deploy(step)
        before.ask(table)
        look(table, arrow)
        for _ in range(rows):
            table.write(table.shown)
        if anew:
            table.write(table.shown, f"new{number}")
        before.ask(table)


def unstarted(table: AlteredTable) -> None:
    """The schema is deployed, and no stream has started: a start takes any file that a table can have."""
    table.give(table.change.first)
    assert run(table.root, "schema", "deploy", str(table.file())).exit_code == 0
    for step in table.change.steps:
        table.give(step.columns, table=step.table)
        if step.empty is not None:
            table.refused_at_start(step.empty)
        elif step is table.change.steps[-1] and step.table == "Event":
            table.took(step)  # by the first start
        else:
            table.deploy(step, held=False)
    table.hidden = {}
    for _ in range(3):
        table.write(table.shown)


def between(table: AlteredTable) -> None:
    """Between two batches of a stream."""
    begun(table)
    steps(table, 2)


def running(table: AlteredTable) -> None:
    """While a stream runs, between two of its batches: it goes on with the schema that it started with, and says so."""
    begun(table)
    first, before = table.change.first, Before.of(table)
    for _ in range(3):
        table.put(first)
    table.give(first, "t")

    def change() -> None:
        for step in table.change.steps:
            table.give(step.columns, "change", step.table)
            table.deploy(step, "change")

    with at_step("log-sync:after", 2, change):
        said = table.ingest()
    if table.shown != first:
        assert "This stream writes version 1 until it starts again with that schema" in said, said
    before.ask(table)
    look(table, arrow, sql_rows)
    table.write(table.shown)
    before.ask(table)


def waiting(table: AlteredTable) -> None:
    """While a stream is open that has no row yet: what would make its rows unreadable is refused until it ends."""
    table.give(table.change.first)
    table.ingest()
    for _ in range(2):
        table.put(table.change.first)

    def change() -> None:
        for step in table.change.steps:
            table.give(step.columns, table=step.table)
            table.deploy(step)

    with at_step("log-open:after", 1, change):
        table.ingest()
    look(table, arrow, sql_rows)
    table.write(table.shown)


def stale(table: AlteredTable) -> None:
    """Two streams, of which one still has the first file."""
    begun(table)
    table.write(table.change.first, "t")
    steps(table)
    table.give(table.change.first, "t")
    table.put(table.change.first, "t")
    if table.change.stale is None:
        table.ingest("t")
    else:
        table.refused_at_start(table.change.stale, "t")
        row = table.rows.pop()
        look(table, arrow)
        table.rows.append(row)
        values: dict[str, Any] = {}
        for name, column in table.shown.items():  # the field is there under the name of then, or not at all
            before = table.change.first.get(name)
            if before is not None and before.key in row.values:
                values[column.key] = row.values[before.key]
                other = before.key != column.key and before.type != column.type
                if other and values[column.key] is not None:
                    table.rows.remove(row)  # a text for a number, or the like: it goes to quarantine
                    break
        row.values = values
        table.give(table.shown, "t")
        table.ingest("t")
    table.write(table.shown, "t")


def merged(table: AlteredTable) -> None:
    """After a merge, whose intraday rows are still there."""
    begun(table)
    table.do(table.night("deephaven")[0])
    steps(table, 2)


def deleted(table: AlteredTable) -> None:
    """After a whole night; rows that come then are late."""
    begun(table)
    for words in table.night("parquet"):
        table.do(words)
    steps(table, 2)


def killed(table: AlteredTable) -> None:
    """Between two batches, with every deployment killed at each of its steps, and the next start too."""
    begun(table)
    for step in table.change.steps:
        before = Before.of(table)
        table.give(step.columns, table=step.table)
        deploying = table.deploying(step)
        for at in DEPLOYING:
            died = killed_at_step(at, partial(run, table.root, *deploying))
            assert died == (step.refused is None or table.deployed() is None), at
            if died and at == "schema-file:after":
                table.took(step)
            look(table, arrow, sql_rows)
        before.ask(table)
        table.give(table.shown)
        table.put(table.shown)
        row = table.rows.pop()
        for at in COMMITTING:
            killed_at_step(at, partial(run, table.root, "ingest", str(table.base / "s.toml"), "--once", "--local"))
            if len(table.rows) != (seen := _count(table)):
                assert seen == len(table.rows) + 1
                table.rows.append(row)
            look(table, arrow)
        table.ingest()
        if row not in table.rows:
            table.rows.append(row)
        look(table, arrow)


def _count(table: AlteredTable) -> int:
    return open_table(table.root, TABLE).count()


@contextmanager
def at_step(step: str, occurrence: int, work: Callable[[], None]) -> Iterator[None]:
    """Calls ``work`` at a step of this process, the n-th time; AssertionError if it was not met."""
    original, left = Fs.step, occurrence

    def met(fs: Fs, name: str) -> None:
        nonlocal left
        original(fs, name)
        if name == step:
            left -= 1
            if left == 0:
                work()

    Fs.step = met  # type: ignore[assignment, method-assign]
    try:
        yield
    finally:
        Fs.step = original  # type: ignore[method-assign]
    assert left <= 0, f"{step} came {occurrence - left} times"


MOMENTS = {moment.__name__: moment for moment in (unstarted, waiting, between, running, stale, merged, deleted, killed)}
FORMS = ("deephaven", "parquet")


def tell(base: Path, change: str, moment: str, form: str, *, kill_every: int = 0) -> int:
    """A cell of the table: the change at its moment, every reader, and a night with every reader after each command.

    ``kill_every``: each command of the night is killed before every n-th change of the disk. The number of kills.
    """
    table = AlteredTable(base, CHANGES[change])
    MOMENTS[moment](table)
    assert table.shown == table.change.columns(held=moment != "unstarted")
    look(table)
    kills = 0
    for words in table.night(form):
        before = Before.of(table)
        if kill_every:
            kills += table.do_killed(words, kill_every, partial(shown_rows, table))
        else:
            table.do(words)
        before.ask(table)
        if words[0] != "validate":
            look(table, arrow, sql_rows)
    look(table)
    found = run(table.root, "verify", "--deep")
    assert found.exit_code == 0, found.output
    return kills

"""A table whose schema changes while rows come in, beside a plain list of what each row had when it was written."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from sparkhaven.jobs.cli.main import app
from tests.support.commands import run, run_json
from tests.support.schemas.changes import Change, Columns, Step, file_text
from tests.support.schemas.killing import killed_at
from tests.support.streams.schema_site import DAY, STREAM, TABLE

ONE_BY_ONE = STREAM.replace('format = "json"', 'format = "json"\nmax_per_trigger = {{ files = 1 }}')
SHOWN = ("expected", "found", "hint")


@dataclass
class Written:
    """One row as it was written: values by key; ``left_out``: keys that a merge has left out since."""

    number: int
    values: Mapping[str, Any]
    left_out: frozenset[str] = frozenset()
    merged: bool = False


@dataclass
class AlteredTable:
    """The database, its streams, and the oracle. ``shown``: the columns that readers show now."""

    base: Path
    change: Change
    rows: list[Written] = field(default_factory=list)
    hidden: Columns = field(default_factory=dict)
    numbers: int = 0
    looks: int = 0

    def __post_init__(self) -> None:
        self.root, self.shown = self.base / "db", self.change.first

    # --- files and streams -----------------------------------------------------------------------------

    def file(self, name: str = "s") -> Path:
        return self.base / f"schema of {name}" / "Test.Event.schema"

    def give(self, columns: Columns, name: str = "s", table: str = "Event") -> None:
        """Writes the schema file that a stream names, and the stream file."""
        path = self.file(name).with_name(f"Test.{table}.schema")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(file_text(columns, table))
        (self.base / name).mkdir(exist_ok=True)
        (self.base / f"{name}.toml").write_text(ONE_BY_ONE.format(name=name, schema=path))

    def put(self, columns: Columns, name: str = "s") -> None:
        """One more file of one row that has a value for each of these columns; it is written by the next ingest."""
        self.numbers += 1
        values = {c.key: DAY if c.partitioning else c.value(self.numbers) for c in columns.values()}
        fields = [f"{json.dumps(n)}: {_field(c.value(self.numbers))}" for n, c in columns.items() if not c.partitioning]
        text = "{" + ", ".join(fields) + "}\n"
        (self.base / name / f"{self.numbers:03}.json").write_text(text)
        self.rows.append(Written(self.numbers, values))

    def ingest(self, name: str = "s", code: int = 0, *words: str) -> str:
        found = run(self.root, "ingest", str(self.base / f"{name}.toml"), "--once", "--local", *words)
        assert found.exit_code == code, found.stderr + repr(found.exception)
        return found.stderr

    def write(self, columns: Columns, name: str = "s") -> None:
        """A row by a stream with this file."""
        self.give(columns, name)
        self.put(columns, name)
        self.ingest(name)

    # --- changes ---------------------------------------------------------------------------------------

    def refused_at_start(self, said: str, name: str = "s", *words: str) -> None:
        """A start that ends with an error of all parts that one must have, and deploys nothing."""
        before = self.deployed()
        text = self.ingest(name, 2, *words)
        assert said in text, (said, text)
        assert all(f"{part}: " in text for part in ("expected", "found", "to do")), text
        assert self.deployed() == before

    def deploying(self, step: Step, name: str = "s") -> list[str]:
        """The command of a step, with the file of a stream."""
        path = self.file(name).with_name(f"Test.{step.table}.schema")
        return ["schema", "deploy", str(path), *step.words]

    def deploy(self, step: Step, name: str = "s", *, held: bool = True) -> None:
        """The command of a step; a refusal names column or table, and changes nothing."""
        refused = step.refused if held else step.empty
        before = self.deployed()
        code, value = run_json(self.root, *self.deploying(step, name))
        if refused is not None:
            assert code in (1, 2), value
            text = json.dumps(value["error"])
            assert refused in text and all(value["error"].get(part) for part in SHOWN), value
            assert self.deployed() == before
            return
        assert code == 0, value
        self.took(step)

    def took(self, step: Step) -> None:
        """The oracle's view of a step that was deployed."""
        if step.table != "Event":  # a table of its own
            return
        keys = {column.key for column in step.columns.values()}
        gone = {name: column for name, column in self.shown.items() if column.key not in keys}
        self.hidden = {n: c for n, c in (self.hidden | gone).items() if c.key not in keys}
        self.shown = step.columns

    def deployed(self) -> bytes | None:
        path = self.root / "Schemas" / "Test.Event.schema"
        return path.read_bytes() if path.exists() else None

    # --- what there should be --------------------------------------------------------------------------

    def expected(self, columns: Columns) -> list[tuple[Any, ...]]:
        """The rows of the oracle, in these columns, sorted by their numbers."""
        return [
            tuple(None if c.key in row.left_out else row.values.get(c.key) for c in columns.values())
            for row in self.rows
        ]

    # --- nights ----------------------------------------------------------------------------------------

    def night(self, form: str) -> tuple[list[str], ...]:
        """The commands of a night."""
        day = [TABLE, "--date", DAY]
        return (
            ["merge", *day, "--local", "--format", form],
            ["validate", *day],
            ["truncate", *day],
            ["delete", *day, "--grace", "0"],
        )

    def do(self, words: list[str]) -> None:
        found = run(self.root, *words)
        assert found.exit_code == 0, (words, found.stdout, found.stderr, found.exception)
        if words[0] == "merge":
            self.merged()

    def merged(self) -> None:
        """A merge has written the rows that were not merged yet, without the columns that are hidden."""
        for row in self.rows:
            if not row.merged:
                row.merged, row.left_out = True, frozenset(column.key for column in self.hidden.values())

    def do_killed(self, words: list[str], every: int, look: Callable[[], None]) -> int:
        """Kills a command before each ``every``-th change of the disk, on the tree that the kill before has left.

        ``look`` is called after each kill. Returns the number of kills.
        """
        kills = 0
        while killed_at(1 + kills * every, partial(self._alone, words)):
            kills += 1
            look()
        if words[0] == "merge":
            self.merged()
        return kills

    def _alone(self, words: list[str]) -> None:
        found = CliRunner().invoke(app, ["--root", str(self.root), *words], env={"SPARKHAVEN_ROOT": ""})
        assert found.exit_code == 0, (words, found.output, found.exception)


def _field(value: Any) -> str:
    return json.dumps(value)

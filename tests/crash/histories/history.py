"""One random history: commands in any order, some of them killed, compared with the model after each."""

from __future__ import annotations

import gc
import importlib
import json
import os
import random
import shutil
import signal
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from sparkhaven import open_table
from sparkhaven.errors import SettingsError
from sparkhaven.jobs.cli.commands import OnUse
from sparkhaven.readers.checks.verify import verify
from sparkhaven.readers.sql.query import sql
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import INTERNAL_NAMESPACE, Layout, TableName
from tests.crash.histories.killing import Killer
from tests.crash.histories.model import Model, NotKept, Row
from tests.crash.histories.operations import COLUMNS, DRAWS, STREAM, TABLE, Draw, Operation, lay_out
from tests.crash.histories.spark_reader import SparkReader
from tests.crash.kills.kill_steps import in_child
from tests.support.commands import run

Files = dict[str, tuple[int, ...]]  # inode, bytes and time of writing in ns, by path
KILLED = -signal.SIGKILL
REFUSED = (1, 2)
FIRST_GUESS = 40  # changes of a command that has not run yet
ANSWER = "answer.json"
OLDER = 3  # epochs before the newest that are compared after a command; at the end of a history it is all of them


class Wrong(AssertionError):
    """A history went another way than its model, with all that was done."""


@dataclass
class Tally:
    """What was done: commands, kills and compared epochs, by name. ``wrong``: stories that differ from their model."""

    done: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        return ", ".join(f"{what} {times:,}" for what, times in sorted(self.done.items()))


class History:
    """Runs one history below ``base``. All work is done in forked children, so this process never has a thread."""

    def __init__(self, base: Path, seed: int, tally: Tally, spark: SparkReader | None = None) -> None:
        self.spark = spark
        self.rng, self.tally, self.model = random.Random(seed), tally, Model()
        self.choice = random.Random(seed)  # of epochs to compare: a history does not depend on what is looked at
        self.checked: tuple[Path, Files, Model] | None = None
        self.changes = dict[str, int]()  # the most that a command has made of the disk
        self.model.takes_late = seed % 4 != 0
        self.site = lay_out(base, "supplement" if self.model.takes_late else "quarantine")
        self.story: list[str] = []

    def run(self, length: int) -> None:
        """Wrong: with the whole story."""
        self._command(("partitions", "add", "Nightly", "0"))
        self._command(("partitions", "add", "Nightly", "1"))
        names, weights = [*DRAWS], [weight for weight, _ in DRAWS.values()]
        for number in range(length):
            name = "ingest" if number == 0 else self.rng.choices(names, weights)[0]
            self._step(self._drawn(DRAWS[name][1]))
            if self.site.snapshots and self.rng.random() < 1 / 8:
                self._restore()
        self._check(self.model, deep=True)
        if self.spark is not None:
            self._check_by(self.spark)

    def _drawn(self, draw: Draw) -> Operation:
        """An operation, seldom one that has to be refused."""
        operation = draw(self.rng, self.site, self.model)
        for _ in range(3):
            if operation.states(self.model) or self.rng.random() < 1 / 4:
                break
            operation = draw(self.rng, self.site, self.model)
        return operation

    # --- one command -----------------------------------------------------------------------------------

    def _step(self, operation: Operation) -> None:
        states, before = operation.states(self.model), self.model
        self.story.append(" ".join(operation.words))
        most = self.changes.get(operation.name, FIRST_GUESS)
        kill_at = self.rng.randint(1, most) if self.rng.random() < 1 / 3 else None
        code, output = self._command(operation.words, kill_at, operation.name)
        ends = {operation.code, *(REFUSED if operation.either else ())}
        if code == KILLED:
            ends |= {*operation.again}
            self.story[-1] += "   (killed)"
            self.tally.done[f"{operation.name} killed"] += 1
            self._one_of([before, *states])
            if operation.done is not None and in_child(partial(_require_done, operation, self.site.root)) == 0:
                self.model = states[-1]
                return
            code, output = self._command(operation.words, name=operation.name)
        self.story[-1] += f" -> {code}"
        if states:
            self._require(code in ends, f"ended with {code}: {output}")
            self.model = states[-1]
        else:
            self._require(code in REFUSED, f"was not refused, {code}: {output}")
        self.tally.done[operation.name if states else f"{operation.name} refused"] += 1
        self._check(self.model)

    def _restore(self) -> None:
        """Restores the last snapshot into a new root; the history goes on there, or in the old one."""
        out, model = self.site.snapshots[-1]
        root = self.site.base / f"db{len(self.story)}"
        self.story.append(f"restore {out.name} into {root.name}")
        old, here = self.site.root, self.model
        self.site.root = root
        code, output = self._command(("restore", str(out)), name="restore")
        self._require(code == 0, output)
        self._check(model)
        self.tally.done["restore"] += 1
        if self.rng.random() < 0.5:
            self.model = model.copy()
            self.model.feed = here.feed
            shutil.rmtree(old)
        else:
            self.site.root = old
            shutil.rmtree(root)

    def _command(self, words: tuple[str, ...], kill_at: int | None = None, name: str | None = None) -> tuple[int, str]:
        """Exit code of a command in a child, and what it printed; ``KILLED`` if it came to that."""
        answer = self.site.base / ANSWER

        def work() -> None:
            killer = Killer(kill_at)
            killer.watch()
            result = run(self.site.root, *words)
            answer.write_text(json.dumps([result.exit_code, result.output, killer.changes, [*sys.modules]]))

        _ = OnUse()[words[0]]  # registers the command, so that no later child has to
        code = in_child(work)
        if code == KILLED:
            return code, ""
        self._require(code == 0, "the child ended with an error of its own")
        exit_code, output, changes, modules = json.loads(answer.read_text())
        import_once(modules)
        if name and exit_code == 0:
            self.changes[name] = max(changes, self.changes.get(name, 1))
        return exit_code, output

    # --- what readers see ------------------------------------------------------------------------------

    def _check(self, model: Model, *, deep: bool = False) -> None:
        """Every reader shows the rows of the model, at some older epochs or, ``deep``, at every one that is kept.

        Where files and model are as at the last check, nothing is read again: readers depend on nothing else.
        """
        state = self.site.root, files_of(self.site.root), model.copy()
        if state == self.checked and not deep:
            self.tally.done["states unchanged"] += 1
            return
        older = sorted(model.epochs.keys() - {0, model.newest})
        epochs = older if deep else sorted(self.choice.sample(older, min(OLDER, len(older))))

        def work() -> None:
            check_rows(self.site.root, model, [*epochs, *{model.newest} - {0}])
            table = TableName.parse(TABLE) if model.newest and not deep else None  # log tables at the end
            findings = verify(Fs(), Layout(self.site.root), table, deep=deep).findings
            damage = [finding.text() for finding in findings if finding.severity == "error"]
            assert not damage, damage

        self._in_child(work, "shows other rows than the model, or damage")
        self.checked = state
        self.tally.done["epochs compared"] += len(epochs) + 1

    def _check_by(self, spark: SparkReader) -> None:
        """Spark too, at the end of a history."""
        for epoch in filter(None, self.model.epochs):
            try:
                expected = self.model.visible(epoch)
            except NotKept:
                continue
            rows = spark.rows(self.site.root, epoch)
            self._require(rows == expected, f"Spark at epoch {epoch}: {difference(rows, expected)}")
            self.tally.done["epochs read by Spark"] += 1

    def _one_of(self, models: list[Model]) -> None:
        """After a kill a reader shows one of these states, as a whole."""

        def work() -> None:
            rows = rows_of(self.site.root) if models[0].newest or self._has_table() else Counter[Row]()
            assert rows in [model.visible() for model in models], f"{rows} is none of {models}"

        self._in_child(work, "shows a state in the middle of a command")

    def _has_table(self) -> bool:
        layout, table = Layout(self.site.root), TableName.parse(TABLE)
        return layout.schema(table).exists() and any(layout.streams(table).glob("*.log"))

    def _in_child(self, work: Callable[[], None], text: str) -> None:
        self._require(in_child(work) == 0, text)

    def _require(self, condition: bool, text: str) -> None:
        if not condition:
            raise Wrong("\n".join([*self.story, text]))


def _require_done(operation: Operation, root: Path) -> None:
    if operation.done is None or not operation.done(root):
        os._exit(1)


def import_once(modules: list[str]) -> None:
    """Imports what a child has imported, so that no later child has to: it takes most of the time of a command."""
    for name in modules:
        if name not in sys.modules and name.startswith("sparkhaven."):
            importlib.import_module(name)
            gc.freeze()  # no collection in a child looks at it, and copies its pages


def files_of(root: Path) -> Files:
    """Every file of the tables of a history, and the state of its inode."""
    files = dict[str, tuple[int, ...]]()
    for directory, _, names in os.walk(root):
        if INTERNAL_NAMESPACE not in Path(directory).parts:
            for name in names:
                path = f"{directory}/{name}"
                status = os.lstat(path)
                files[path] = status.st_ino, status.st_size, status.st_mtime_ns
    return files


def check_rows(root: Path, model: Model, epochs: Sequence[int]) -> None:
    """Arrow at epochs, twice at the newest, and SQL."""
    if not model.newest:
        return
    expected = model.visible()
    for rows in (rows_of(root), rows_of(root), sql_rows(root)):
        assert rows == expected, difference(rows, expected)
    for epoch in epochs:
        try:
            expected = model.visible(epoch)
        except NotKept:
            continue  # the command may still have the rows in an older generation
        try:
            rows = rows_of(root, epoch)
        except SettingsError:  # it may be refused where rows of it have left intraday, but never be wrong
            assert any(location in model.removed for location in model.epochs[epoch].rows), epoch
            continue
        assert rows == expected, (epoch, difference(rows, expected))


def rows_of(root: Path, epoch: int | None = None) -> Counter[Row]:
    """All rows, by Arrow."""
    pinned = None if epoch is None else {STREAM: epoch}
    return counted(open_table(root, TABLE, epoch=pinned).to_arrow(list(COLUMNS)).to_pydict())


def sql_rows(root: Path) -> Counter[Row]:
    """All rows, by DuckDB over our scans."""
    return counted(sql(root, f"select {', '.join(COLUMNS)} from {TABLE}").to_pydict())


def counted(columns: dict[str, list[object]]) -> Counter[Row]:
    return Counter(Row(*row) for row in zip(*(columns[name] for name in COLUMNS), strict=True))


def difference(rows: Counter[Row], expected: Counter[Row]) -> str:
    return f"missing {dict(expected - rows)}, too many {dict(rows - expected)}"

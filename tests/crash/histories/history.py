"""One random history: steps in any order, some of them killed or on a full disk, compared with the model after each."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from tests.crash.histories.apart import KILLED, Apart, Ended, Fault, run_here
from tests.crash.histories.doors import check_compare, check_extended, check_live
from tests.crash.histories.model import Model
from tests.crash.histories.operations.base import MAY_REFUSE, REFUSED, Action, Draw, Operation
from tests.crash.histories.operations.table import STEPS
from tests.crash.histories.predicates import draw_predicate
from tests.crash.histories.readers import (
    Look,
    PinnedReader,
    Wrong,
    check_copy,
    check_damage,
    check_table,
    counted,
    difference,
    expected_rows,
    require,
    rows_now,
)
from tests.crash.histories.sizes import cut_small
from tests.crash.histories.spark_reader import READERS, SparkReader, readable
from tests.crash.histories.world import DATES, NAMESPACE, Shown, World, draw_world, indexed, write_schema
from tests.support.commands import run

SPARK = "Spark by its reader"  # with which a difference of Spark begins
LENGTH = 14  # steps of a history
OLDER = 1  # epochs before the newest that are compared after a step
FILTERS = 2  # that are asked after a step
LIVE = 0.3  # of the changes, after which an engine attaches the tables
CALLS = {
    "ingest": 60,
    "merge": 90,
    "delete-rows": 110,
    "rewrite-column": 90,
    "import": 90,
    "snapshot": 60,
    "mirror": 60,
    "restore": 60,
    "export": 40,
}
"""Changes of the disk that a command makes, about: a fault is met by most that are drawn up to here."""
FEW_CALLS = 30
FOLLOWED = (
    "merge",
    "import",
    "delete-rows",
    "rewrite-column",
    "dates drop",
    "dates expire",
    "dates move",
    "dates detach",
    "dates attach",
    "dates adopt",
)
"""Commands that leave the tree of ``ExtendedStorage`` in step with history."""
PHRASES = (
    ("ingest", "ingest", "merge", "swap", "mirror"),
    ("mirror", "swap", "mirror"),
    ("snapshot", "swap", "restore over"),
    ("pin", "merge", "delete-rows"),
    ("ingest", "merge sorted", "delete-rows"),
    ("ingest", "pin", "merge", "truncate", "delete", "dates drop"),
    ("merge all", "truncate all", "delete all", "streams remove", "snapshot"),
    ("merge all", "truncate all", "delete all", "streams remove", "mirror", "ingest", "merge"),
    ("merge", "truncate", "delete", "dates detach", "dates attach", "ingest", "merge"),
    ("ingest", "merge", "dates detach", "dates attach", "correct", "truncate"),
    ("undo", "keep logs", "rollback", "undo", "stale logs"),
    ("delete-rows", "keep logs", "rollback", "delete-rows", "stale logs"),
    ("merge", "schema deploy", "ingest", "merge", "correct"),
    ("merge", "dates move", "correct", "dates move", "validate"),
    ("merge", "delete-rows", "ingest", "merge", "truncate"),
    ("snapshot", "write into a copy", "restore"),
    ("mirror", "write into a copy", "merge", "mirror"),
)
"""Steps that often follow each other in a night, so that histories get to states that seldom come by chance."""


class Step(NamedTuple):
    """A step by its name, and the number that all else of it is drawn from; ``fault``: none, or of which kind."""

    name: str
    number: int
    fault: str = ""


@dataclass
class Tally:
    """How often what was done, asked and drawn: by operation, by reader, by type of a column."""

    done: Counter[str] = field(default_factory=Counter)
    readers: Counter[str] = field(default_factory=Counter)
    types: Counter[str] = field(default_factory=Counter)

    @property
    def text(self) -> str:
        """The operations."""
        return ", ".join(f"{what} {times:,}" for what, times in sorted(self.done.items()))

    def counts(self) -> dict[str, Counter[str]]:
        """What is counted, by what it is counted by."""
        return {"done": self.done, "readers": self.readers, "types": self.types}


class WentWrong(AssertionError):
    """A history is not as the model has it: ``end`` says where, after how many ``steps``; ``story`` what was done."""

    def __init__(self, story: Sequence[str], end: str, steps: int) -> None:
        super().__init__("\n".join([*story, f"  {end}"]))
        self.end, self.steps = end, steps


def draw_steps(seed: int, length: int, faults: Sequence[str] = ()) -> list[Step]:
    """The steps of a history; one in three has one of these faults."""
    rng = random.Random(f"steps {seed}")
    names, weights = [*STEPS], [weight for weight, _ in STEPS.values()]
    drawn = ["ingest", "ingest"]
    while len(drawn) < length:
        drawn += rng.choice(PHRASES) if rng.random() < 0.25 else rng.choices(names, weights)
    return [
        Step(name, rng.getrandbits(32), rng.choice(faults) if faults and n > 0 and rng.random() < 1 / 3 else "")
        for n, name in enumerate(drawn[:length])
    ]


class History:
    """Runs one history below ``base``."""

    def __init__(self, base: Path, seed: int, tally: Tally, apart: Apart, spark: SparkReader | None = None) -> None:
        self.tally, self.apart, self.spark = tally, apart, spark
        self.site, self.world = draw_world(random.Random(f"world {seed}"), base)
        self.look = Look(random.Random(f"look {seed}"), tally.readers)
        self.pinned: list[PinnedReader] = []
        self.logs: list[tuple[str, Path]] = []
        self.story: list[str] = []
        self.number = 0

    def run(self, steps: Sequence[Step]) -> None:
        """All steps. WentWrong: at the end of one of them."""
        cut_small(self.site.small)
        try:
            for name in self.site.partitions:
                run(self.site.root, "partitions", "add", NAMESPACE, name)
            for self.number, step in enumerate(steps):
                self.step(step)
            self.check_end()
        except Wrong as wrong:
            raise WentWrong(self.story, str(wrong), self.number + 1) from wrong
        except Exception as error:
            raise WentWrong(self.story, f"{type(error).__name__}: {error}", self.number + 1) from error
        finally:
            cut_small(False)

    def step(self, step: Step) -> None:
        """One step, and then what every reader shows."""
        rng = random.Random(step.number)
        if rng.random() < 0.2:
            self.site.focus = rng.choice(DATES)
        before = self.world
        _, drawn = STEPS[step.name]
        if isinstance(drawn, Action):
            drawn.do(self, rng, fault_of(step.name, step.fault, rng))
        elif (operation := self._drawn(step.name, drawn, rng)) is not None:
            self.perform(operation, fault_of(operation.name, step.fault, rng))
        else:
            return
        self.check(changed=self.world is not before)

    def _drawn(self, name: str, draw: Draw, rng: random.Random) -> Operation | None:
        """An operation, seldom one that has to be refused."""
        operation = draw(rng, self.site, self.world)
        if name in ("ingest", "schema deploy", "dates expire"):
            return operation
        for _ in range(3):
            if operation is not None and (operation.states(self.world) or rng.random() < 1 / 8):
                break
            operation = draw(rng, self.site, self.world)
        return operation

    # --- one command -----------------------------------------------------------------------------------

    def perform(self, operation: Operation, fault: Fault | None) -> None:
        """Runs a command, where it met a fault once more, and follows it in the model."""
        states, before = operation.states(self.world), self.world
        self.story.append(f"{self.number:3}  {' '.join(operation.words)}".replace(f"{self.site.base}/", ""))
        ended = self.command(operation.words, fault)
        ends = {operation.code}
        if ended.met:
            ends |= {*operation.again}
            number = fault.number if fault else 0
            self.story[-1] += (
                f"   (killed before change {number})"
                if ended.code == KILLED
                else f"   (disk full from call {number} -> {ended.code})"
            )
            self.tally.done[f"{operation.name} {'killed' if ended.code == KILLED else 'on a full disk'}"] += 1
            self.one_of([before, *states])
            if operation.done is not None and states and operation.done(self.site.root):
                self._done(operation, states[-1])
                return
            if ended.code != KILLED:
                require(ended.code in (0, 1, 3) or not states, f"ended with {ended.code}: {ended.output}")
            ended = self.command(operation.words)
        self.story[-1] += f" -> {ended.code}"
        if states and ended.code in ends:
            self._done(operation, states[-1])
        elif states:
            require(operation.either and ended.code in MAY_REFUSE, f"ended with {ended.code}: {ended.output}")
            self.tally.done[f"{operation.name} refused"] += 1
        else:
            allowed = (0, *MAY_REFUSE) if operation.either else REFUSED
            require(ended.code in allowed, f"was not refused, {ended.code}: {ended.output}")
            self.tally.done[f"{operation.name} refused"] += 1
        if operation.name == "schema deploy":
            self.write_schemas()

    def _done(self, operation: Operation, world: World) -> None:
        self.world = world
        operation.after(world)
        if operation.name in FOLLOWED and self.look.sound:
            self.check_trees(operation.words)
        self.tally.done[operation.name] += 1

    def check_trees(self, names: Collection[str]) -> None:
        """The trees beside history of these tables are in step with it."""
        for model in self.world.tables.values():
            if model.extended and model.name in names:
                check_extended(self.site.root, model)
                self.look.asked["a tree beside history"] += 1

    def write_schemas(self) -> None:
        for model in self.world.tables.values():
            write_schema(self.site, model)

    def command(self, words: Sequence[str], fault: Fault | None = None, root: Path | None = None) -> Ended:
        """Runs a command in this process, or apart where it has a fault."""
        root = root or self.site.root
        if fault is not None:
            return self.apart.run(root, words, fault, small=self.site.small)
        return run_here(root, words)

    def one_of(self, worlds: list[World]) -> None:
        """After a fault each table shows one of these states, as a whole."""
        for name in dict.fromkeys(name for world in worlds for name in (*world.tables, *world.users)):
            tables = [world.table(name) for world in worlds]
            anyone = next(filter(None, tables))
            if not any(rows_now(self.site.root, table or anyone) == expected_rows(table) for table in tables):
                found = rows_now(self.site.root, tables[0] or anyone)
                told = "; ".join(difference(found, expected_rows(table)) for table in (tables[0], tables[-1]))
                raise Wrong(f"{name} shows a state in the middle of a command: {told}")

    # --- what readers see ------------------------------------------------------------------------------

    def check(self, *, changed: bool) -> None:
        """Every reader shows the rows of the model: of now, of some older epochs, of the readers that are open."""
        for table in self.world.written():
            epochs, filters = (OLDER, FILTERS) if changed else (0, 1)
            self.tally.done["epochs compared"] += check_table(
                self.look, self.site.root, table, epochs=epochs, filters=filters
            )
        for reader in self.pinned:
            reader.ask(self.look)
        copies = [*self.site.snapshots, *((path.resolve(), world) for path, world in self.site.mirrors.items())]
        if copies and self.look.rng.random() < 0.5:
            path, world = copies[-1] if self.look.rng.random() < 0.5 else self.look.rng.choice(copies)
            check_copy(self.look, path, world)
            self.look.asked["a copy"] += 1
            self.compare(path, world)
        if changed and self.look.rng.random() < LIVE:
            for table in self.world.written():
                if isinstance(table, Model):
                    self.look.asked["an engine"] += check_live(self.site.root, table)

    def compare(self, copy: Path, world: World) -> None:
        """``compare`` says of a copy whether it has the rows of now."""
        copied = {table.name: table for table in world.written()}
        for table in self.world.written():
            if table.name in copied:
                self.look.asked["compare"] += check_compare(self.site.root, table, copy, copied[table.name])

    def check_end(self) -> None:
        """All epochs that are kept, all copies and all checksums; ``spark`` reads the tables too."""
        for table in self.world.written():
            self.tally.done["epochs compared"] += check_table(
                self.look, self.site.root, table, epochs=1000, filters=6, deep=True
            )
            self.tally.types.update(column.kind.name for column in table.columns)
        check_damage(self.site.root, None, deep=False)
        for path, world in (*self.site.snapshots, *self.site.mirrors.items()):
            check_copy(self.look, path.resolve(), world, deep=True)
        if self.spark is not None:
            for table in self.world.written():
                self.check_by_spark(self.spark, table)

    def check_by_spark(self, spark: SparkReader, table: Shown) -> None:
        """All rows, and those of a filter, by both of Spark's readers."""
        columns, rows = readable(table.columns), table.visible()
        for where in (None, draw_predicate(self.look.rng, table.columns, rows, [*indexed(table)])):
            expected = counted(columns, [row for row in rows if where is None or where.holds(row)])
            asked = f" where {where.text()}" if where else ""
            for reader in READERS:
                text = where.text() if where else ""
                found = spark.rows(self.site.root, table.name, columns, text, reader)
                require(found == expected, f"{SPARK} {reader}, {table.name}{asked}: {difference(found, expected)}")
                self.look.asked[f"Spark, reader {reader}"] += 1

    def tell(self, text: str) -> None:
        """A line of the story."""
        self.story.append(f"{self.number:3}  {text}")


def fault_of(name: str, kind: str, rng: random.Random) -> Fault | None:
    most = CALLS.get(name, FEW_CALLS) // (2 if kind == "full" else 1)
    return Fault(kind, rng.randint(1, most)) if kind else None

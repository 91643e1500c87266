"""One random history: steps in any order, some of them killed or on a full disk, compared with the model after each."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

from sparkhaven import open_table
from sparkhaven.store.layout import Layout, TableName
from tests.crash.histories.apart import KILLED, Apart, Ended, Fault
from tests.crash.histories.doors import check_compare, check_extended, check_live
from tests.crash.histories.model import Model
from tests.crash.histories.operations import DRAWS, REFUSED, Operation
from tests.crash.histories.predicates import draw_predicate
from tests.crash.histories.readers import (
    PinnedReader,
    Rows,
    Wrong,
    check_copy,
    check_damage,
    check_table,
    counted,
    difference,
    require,
    rows_now,
)
from tests.crash.histories.sizes import cut_small
from tests.crash.histories.spark_reader import SparkReader, readable
from tests.crash.histories.world import DATES, NAMESPACE, World, draw_world, feed_more, indexed, write_schema
from tests.support.commands import run

LENGTH = 14  # steps of a history
PINNED = 3  # readers that are open at once
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
    """What was done: steps, faults and compared epochs, by name."""

    done: Counter[str] = field(default_factory=Counter)

    @property
    def text(self) -> str:
        return ", ".join(f"{what} {times:,}" for what, times in sorted(self.done.items()))


def draw_steps(seed: int, length: int, faults: Sequence[str] = ()) -> list[Step]:
    """The steps of a history; one in three has one of these faults."""
    rng = random.Random(f"steps {seed}")
    names, weights = [*STEPS], [*STEPS.values()]
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
        self.look = random.Random(f"look {seed}")  # what is looked at: a history does not depend on it
        self.pinned: list[PinnedReader] = []
        self.logs: list[tuple[str, Path]] = []
        self.story: list[str] = []
        self.number = 0

    def run(self, steps: Sequence[Step]) -> None:
        """Wrong: with the whole story."""
        cut_small(self.site.small)
        try:
            for name in self.site.partitions:
                run(self.site.root, "partitions", "add", NAMESPACE, name)
            for self.number, step in enumerate(steps):
                self.step(step)
            self.check_end()
        except Wrong as wrong:
            raise Wrong("\n".join([*self.story, f"  {wrong}"])) from wrong
        except Exception as error:
            raise Wrong("\n".join([*self.story, f"  {type(error).__name__}: {error}"])) from error
        finally:
            cut_small(False)

    def step(self, step: Step) -> None:
        """One step, and then what every reader shows."""
        rng = random.Random(step.number)
        if rng.random() < 0.2:
            self.site.focus = rng.choice(DATES)
        before = self.world
        if step.name in ACTIONS:
            ACTIONS[step.name](self, rng, step.fault)
        elif (operation := self._drawn(step.name, rng)) is not None:
            self.perform(operation, _fault(operation.name, step.fault, rng))
        else:
            return
        self.check(changed=self.world is not before)

    def _drawn(self, name: str, rng: random.Random) -> Operation | None:
        """An operation, seldom one that has to be refused."""
        draw = DRAWS[name][1]
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
            require(operation.either and ended.code in REFUSED, f"ended with {ended.code}: {ended.output}")
            self.tally.done[f"{operation.name} refused"] += 1
        else:
            allowed = (0, *REFUSED) if operation.either else REFUSED
            require(ended.code in allowed, f"was not refused, {ended.code}: {ended.output}")
            self.tally.done[f"{operation.name} refused"] += 1
        if operation.name == "schema deploy":
            self._write_schemas()

    def _done(self, operation: Operation, world: World) -> None:
        self.world = world
        operation.after(world)
        if operation.name in FOLLOWED:
            for model in world.tables.values():
                if model.extended and model.name in operation.words:
                    check_extended(self.site.root, model)
                    self.tally.done["trees compared"] += 1
        self.tally.done[operation.name] += 1

    def _write_schemas(self) -> None:
        for model in self.world.tables.values():
            write_schema(self.site, model)

    def command(self, words: Sequence[str], fault: Fault | None = None, root: Path | None = None) -> Ended:
        """Runs a command in this process, or apart where it has a fault."""
        root = root or self.site.root
        if fault is not None:
            return self.apart.run(root, words, fault, small=self.site.small)
        result = run(root, *words)
        output = result.output
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            output += f"{type(result.exception).__name__}: {result.exception}"
        return Ended(result.exit_code, output[-3000:], False)

    def one_of(self, worlds: list[World]) -> None:
        """After a fault each table shows one of these states, as a whole."""
        for name, model in self.world.tables.items():
            found = rows_now(self.site.root, model)
            for world in worlds:
                mine = world.tables[name]
                if rows_now(self.site.root, mine) == counted(mine.columns, mine.visible()):
                    break
            else:
                expected = [counted(world.tables[name].columns, world.tables[name].visible()) for world in worlds]
                told = "; ".join(difference(found, rows) for rows in (expected[0], expected[-1]))
                raise Wrong(f"{name} shows a state in the middle of a command: {told}")

    # --- what readers see ------------------------------------------------------------------------------

    def check(self, *, changed: bool) -> None:
        """Every reader shows the rows of the model: of now, of some older epochs, of the readers that are open."""
        for model in self.world.tables.values():
            epochs, filters = (OLDER, FILTERS) if changed else (0, 1)
            compared = check_table(self.look, self.site.root, model, epochs=epochs, filters=filters)
            self.tally.done["epochs compared"] += compared
        for reader in self.pinned:
            reader.ask(self.look)
            self.tally.done["pinned readers asked"] += 1
        copies = [*self.site.snapshots, *((path.resolve(), world) for path, world in self.site.mirrors.items())]
        if copies and self.look.random() < 0.5:
            path, world = copies[-1] if self.look.random() < 0.5 else self.look.choice(copies)
            check_copy(self.look, path, world)
            self.tally.done["copies compared"] += 1
            self.compare(path, world)
        if changed and self.look.random() < LIVE:
            for model in self.world.tables.values():
                if any(stream.newest for stream in model.streams.values()):
                    self.tally.done["tables served"] += check_live(self.site.root, model)

    def compare(self, copy: Path, world: World) -> None:
        """``compare`` says of a copy whether it has the rows of now."""
        for name, model in self.world.tables.items():
            if name in world.tables and any(stream.newest for stream in world.tables[name].streams.values()):
                compared = check_compare(self.site.root, model, copy, world.tables[name])
                self.tally.done["roots compared"] += compared

    def check_end(self) -> None:
        """All epochs that are kept, all copies and all checksums; ``spark`` reads the tables too."""
        for model in self.world.tables.values():
            self.tally.done["epochs compared"] += check_table(
                self.look, self.site.root, model, epochs=1000, filters=6, deep=True
            )
        check_damage(self.site.root, None, deep=False)
        for path, world in (*self.site.snapshots, *self.site.mirrors.items()):
            check_copy(self.look, path.resolve(), world, deep=True)
        if self.spark is not None:
            for model in self.world.tables.values():
                self.check_by_spark(self.spark, model)

    def check_by_spark(self, spark: SparkReader, model: Model) -> None:
        """All rows, and those of a filter."""
        columns, rows = readable(model.columns), model.visible()
        if not any(stream.newest for stream in model.streams.values()):
            return
        for where in (None, draw_predicate(self.look, model.columns, rows, [*indexed(model)])):
            found = spark.rows(self.site.root, model.name, columns, where.text() if where else "")
            expected = counted(columns, [row for row in rows if where is None or where.holds(row)])
            asked = f" where {where.text()}" if where else ""
            require(found == expected, f"Spark, {model.name}{asked}: {difference(found, expected)}")
            self.tally.done["tables read by Spark"] += 1

    # --- other steps -----------------------------------------------------------------------------------

    def tell(self, text: str) -> None:
        self.story.append(f"{self.number:3}  {text}")

    def pin(self, rng: random.Random, fault: str) -> None:
        """Opens a table, which is asked again after every later step."""
        model = self.world.tables[rng.choice([*self.world.tables])]
        if not any(stream.newest for stream in model.streams.values()):
            return
        rows = model.visible()
        filters = [draw_predicate(rng, model.columns, rows, [*indexed(model)]) for _ in range(2)]
        opened = open_table(self.site.root, model.name)
        self.tell(f"a reader opens {model.name}")
        self.pinned.append(PinnedReader(opened, model.columns, rows, self.number, filters))
        del self.pinned[:-PINNED]
        self.tally.done["readers opened"] += 1

    def restore(self, rng: random.Random, fault: str) -> None:
        """Restores a snapshot or a mirror into a new root; the history goes on there, or in the old one."""
        copies = [*self.site.snapshots, *self.site.mirrors.items()]
        if not copies:
            return
        source, world = rng.choice(copies)
        root = self.site.fresh("db")
        self.tell(f"restore {source.name} into {root.name}")
        self.through("restore", ("restore", str(source)), _fault("restore", fault, rng), root, world, (0,))
        check_copy(self.look, root, world)
        self.tally.done["restore"] += 1
        if rng.random() < 0.4:
            self.story[-1] += ", and go on there"
            old, self.site.root, self.world = self.site.root, root, world.copy()
            self._write_schemas()
            self.pinned.clear()
            self.logs.clear()
            shutil.rmtree(old)
            return
        if rng.random() < 0.5:
            self.drop(rng, fault, root, world)
        shutil.rmtree(root)

    def drop(self, rng: random.Random, fault: str, root: Path, world: World) -> None:
        """Drops the tables of a restored root, each as a whole."""
        for model in world.tables.values():
            if not Layout(root).schema(TableName.parse(model.name)).exists():
                continue
            words = ("drop", model.name, "--yes", "--grace", "0")
            self.tell(f"in {root.name}: {' '.join(words)}")
            self.through("drop", words, _fault("drop", fault, rng), root, world, (0, 2))
            require(not Layout(root).schema(TableName.parse(model.name)).exists(), f"{model.name} is still there")
            self.tally.done["drop"] += 1

    def through(
        self, name: str, words: Sequence[str], fault: Fault | None, root: Path, world: World, again: tuple[int, ...]
    ) -> Ended:
        """A command on another root, once more where it met a fault; then each table is there as a whole, or not."""
        ended = self.command(words, fault, root)
        if ended.met:
            how = "killed" if ended.code == KILLED else "on a full disk"
            self.story[-1] += f"   ({how}, at {fault.number if fault else 0})"
            self.tally.done[f"{name} {how}"] += 1
            for model in world.tables.values():
                found = rows_now(root, model)
                require(not found or found == counted(model.columns, model.visible()), f"{model.name} is there in part")
            ended = self.command(words, root=root)
        else:
            again = (0,)
        require(ended.code in again, f"ended with {ended.code}: {ended.output}")
        return ended

    def another_rule(self, rng: random.Random, fault: str) -> None:
        """A stream whose days are those of another zone takes no row beside those that are there."""
        feed = self.world.feeds[rng.choice([*self.world.feeds])]
        if not all(self.world.tables[table].streams[feed.stream].exists for table in feed.tables):
            return
        feed_more(rng, self.site, self.world, feed)
        file = self.site.stream(feed.stream)
        settings = file.read_text()
        file.write_text(settings.replace('zone = "UTC"', 'zone = "Asia/Tokyo"'))
        self.tell(f"ingest {file.name} --once, with the days of another zone")
        ended = self.command(("ingest", str(file), "--once"))
        file.write_text(settings)
        require(ended.code == 2, f"ended with {ended.code}: {ended.output}")
        self.tally.done["another rule refused"] += 1

    def restore_over(self, rng: random.Random, fault: str) -> None:
        """Restores a snapshot over the tables that are there."""
        if not self.site.snapshots:
            return
        source, world = rng.choice(self.site.snapshots)
        words = ["restore", str(source), *(word for name in world.tables for word in ("--replace", name))]
        self.tell(f"restore {source.name} over the tables")
        before = self.world
        told_apart = all(_rows(model) != _rows(before.tables[name]) for name, model in world.tables.items())
        met = _fault("restore over", fault, rng) if told_apart else None
        ended = self.command(words, met)
        if ended.met:
            self.story[-1] += f"   ({'killed' if ended.code == KILLED else 'on a full disk'}, at {met})"
            self.tally.done[f"restore over {'killed' if ended.code == KILLED else 'on a full disk'}"] += 1
            self.one_of([before, replace(before, tables={**before.tables, **world.tables})])
            ended = self.command(words)
        require(ended.code == 0, f"ended with {ended.code}: {ended.output}")
        self.world = before.copy()
        for name, model in world.tables.items():
            present = "there already" in ended.output.split(f"{name}: ")[1].split("\n")[0]
            kept = present and rows_now(self.site.root, before.tables[name]) == _rows(before.tables[name])
            self.world.tables[name] = before.tables[name] if kept else model.copy()
            if kept:
                rows = before.tables[name].visible(), model.visible()
                same = counted(model.columns, rows[0]) == counted(model.columns, rows[1])
                require(same, f"{name} is said to be present, and has other rows than the snapshot")
        self.site.replaced.add(self.site.root)
        self._write_schemas()
        self.tally.done["restore over"] += 1

    def write_into_copy(self, rng: random.Random, fault: str) -> None:
        """A command that would change a snapshot or a mirror is refused, and changes nothing."""
        copies = [*self.site.snapshots, *self.site.mirrors.items()]
        if not copies:
            return
        path, world = rng.choice(copies)
        name = rng.choice([name for name in DRAWS if name not in ("snapshot", "mirror", "ingest")])
        site, own = self.site, self.world
        operation = DRAWS[name][1](rng, site, world.copy())
        self._write_schemas()
        if operation is None:
            return
        self.tell(f"in {path.name}: {' '.join(operation.words)}".replace(f"{site.base}/", ""))
        before = contents(path.resolve())
        ended = self.command(operation.words, root=path)
        self.story[-1] += f" -> {ended.code}"
        require(ended.code != 0 or contents(path.resolve()) == before, f"{path.name} was written: {ended.output}")
        check_copy(self.look, path.resolve(), world)
        self.world = own
        self.tally.done["written into a copy"] += 1

    def keep_logs(self, rng: random.Random, fault: str) -> None:
        """A backup of the commit logs of a table."""
        name = rng.choice([*self.world.tables])
        streams = Layout(self.site.root).streams(TableName.parse(name))
        if streams.exists():
            copy = self.site.fresh("logs")
            self.tell(f"copy the logs of {name} to {copy.name}")
            shutil.copytree(streams, copy, symlinks=True)
            self.logs.append((name, copy))

    def stale_logs(self, rng: random.Random, fault: str) -> None:
        """Older logs are put back in a copy of the root: a rebuilt log has the rows of now, or it is refused."""
        if not self.logs:
            return
        name, copy = rng.choice(self.logs)
        model, trial = self.world.tables[name], self.site.fresh("trial")
        stream = rng.choice([*model.streams])
        self.tell(f"put {copy.name} back in a copy of the root, recover {name} {stream} --from-locations")
        shutil.copytree(self.site.root, trial, symlinks=True)
        streams = Layout(trial).streams(TableName.parse(name))
        shutil.rmtree(streams)
        shutil.copytree(copy, streams, symlinks=True)
        words = ("recover", name, stream, "--from-locations", rng.choice(("--accept-positions", "--back-to-known")))
        ended = self.command(words, root=trial)
        self.story[-1] += f" -> {ended.code}"
        if ended.code == 0 and words[-1] == "--accept-positions":
            found = rows_now(trial, model)
            expected = counted(model.columns, model.visible())
            require(found == expected, f"the rebuilt log of {name}: {difference(found, expected)}")
        self.tally.done["logs rebuilt" if ended.code == 0 else "logs not rebuilt"] += 1
        shutil.rmtree(trial)


def contents(root: Path) -> dict[str, tuple[int, int]]:
    """Bytes and inode of every file below a root but locks."""
    return {
        str(path): (path.lstat().st_size, path.lstat().st_mtime_ns)
        for path in _files(root)
        if not path.name.endswith(".lock")
    }


def _files(directory: Path) -> Iterator[Path]:
    return (path for path in sorted(directory.rglob("*")) if not path.is_dir() or path.is_symlink())


def _rows(model: Model) -> Rows:
    return counted(model.columns, model.visible())


def _fault(name: str, kind: str, rng: random.Random) -> Fault | None:
    most = CALLS.get(name, FEW_CALLS) // (2 if kind == "full" else 1)
    return Fault(kind, rng.randint(1, most)) if kind else None


ACTIONS: dict[str, Callable[[History, random.Random, str], None]] = {
    "pin": History.pin,
    "restore": History.restore,
    "restore over": History.restore_over,
    "write into a copy": History.write_into_copy,
    "keep logs": History.keep_logs,
    "stale logs": History.stale_logs,
    "another rule": History.another_rule,
}
STEPS: dict[str, float] = {
    **{name: weight for name, (weight, _) in DRAWS.items()},
    "pin": 3,
    "restore": 1.5,
    "restore over": 1,
    "write into a copy": 1.5,
    "keep logs": 0.7,
    "stale logs": 0.7,
    "another rule": 0.8,
}

"""What befalls one date in any order: supplements, columns that come and go, corrections, detaching and coming back.

After each step every row is there once, and the proof of the date holds: it is validated, whatever was left out before.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sparkhaven.readers.arrow.opening import open_table
from tests.support.commands import run
from tests.support.streams.schema_site import DAY, TABLE, Site

HEAD = """<Table namespace="Test" name="Event" storageType="NestedPartitionedOnDisk">
<Partitions keyFormula="${autobalance_by_first_grouping_column}"/>
<Column name="Date" dataType="String" columnType="Partitioning"/><Column name="A" dataType="long"/>
<Column name="G" dataType="String" columnType="Grouping"/>
"""


class Dated(Site):
    """One date, its rows as they are to be read, and those that a directory outside has."""

    def __init__(self, base: Path, partitions: int) -> None:
        super().__init__(base)
        self.columns = {"P": "P"}  # name in files of rows -> name now
        self.kept: list[dict[str, Any]] = []
        self.away: list[tuple[Path, list[dict[str, Any]]]] = []
        self.back: list[tuple[Path, list[dict[str, Any]]]] = []  # of those, which have come back and are here
        self.intraday = False
        self.declare()
        self.deploy()
        self.stream()
        for number in range(partitions):
            assert run(self.root, "partitions", "add", "Test", str(number)).exit_code == 0
        assert run(self.root, "partitions", "add", "Test", "other", "--volume", base).exit_code == 0
        (self.root / "Systems" / "Test" / "WritablePartitions" / "other").unlink()

    def declare(self) -> None:
        self.write(HEAD + "".join(f'<Column name="{name}" dataType="int"/>' for name in self.columns) + "</Table>\n")

    def row(self) -> dict[str, Any]:
        self.numbers += 1
        return {"A": self.numbers, "G": "xyz"[self.numbers % 3], **dict.fromkeys(self.columns, self.numbers)}

    def command(self, *words: str) -> str:
        """Its lines, from a run that ends well."""
        done = run(self.root, *words)
        assert done.exit_code == 0, (words, done.stdout, done.stderr)
        return done.stdout

    # --- steps
    def late(self) -> None:
        self.taken()
        self.merge()

    def taken(self) -> list[dict[str, Any]]:
        rows = [self.row(), self.row()]
        self.kept += rows
        for row in rows:
            self.put(row)
            self.numbers += 1
        self.ingest()
        self.intraday = True
        return rows

    def withdrawn(self) -> None:
        """Of the rows that came one is withdrawn before they are merged."""
        gone = self.taken()[0]
        self.kept.remove(gone)
        self.command("delete-rows", TABLE, "--where", f"A = {gone['A']}")
        self.merge()

    def column(self) -> None:
        self.columns[f"P{len(self.columns)}"] = ""
        self.declare()
        self.deploy()

    def rename(self) -> None:
        old = next(iter(self.columns))
        new = f"{old}x"
        self.columns = {new if name == old else name: "" for name in self.columns}
        self.declare()
        self.deploy("--rename", f"{old}={new}")
        for rows in (self.kept, *(rows for _, rows in (*self.away, *self.back))):
            for row in rows:
                if old in row:
                    row[new] = row.pop(old)

    def remerge(self) -> None:
        self.merge("--rewrite")

    def forget(self) -> None:
        """Deletes the first row."""
        gone = self.kept.pop(0)
        self.command("delete-rows", TABLE, "--where", f"A = {gone['A']}")

    def correct(self) -> None:
        name = next(iter(self.columns))
        self.command("rewrite-column", TABLE, "--dates", DAY, "--set", f"{name}={name} + 1", "--local", "--again")
        for row in self.kept:
            row[name] = None if row.get(name) is None else row[name] + 1

    def end(self) -> None:
        """Validates the date, and takes it from intraday if it is there."""
        if not self.kept and not self.intraday:
            return
        for words in (["validate"], ["truncate"], ["delete", "--grace", "0"]) if self.intraday else (["validate"],):
            self.command(words[0], TABLE, "--dates", DAY, *words[1:])
        self.intraday = False

    def detach(self) -> None:
        self.end()
        out = self.base / f"out{self.numbers}"
        self.numbers += 1
        self.command("dates", "detach", TABLE, "--dates", DAY, "--out", str(out))
        self.away.append((out, self.kept))
        self.kept, self.back = [], []

    def attach(self) -> None:
        out, rows = self.away.pop(0)
        assert f"attached {len(rows)} rows" in self.command("dates", "attach", TABLE, str(out))
        self.kept = self.kept + [dict(row) for row in rows]
        self.back.append((out, rows))

    def drop(self) -> None:
        self.end()
        self.command("dates", "drop", TABLE, "--dates", DAY)
        self.kept, self.away, self.back = [], self.away + self.back, []

    def given(self) -> None:
        """A tree of others takes the place of what the date has."""
        self.end()
        self.kept, self.away, self.back = [self.row()], self.away + self.back, []
        tree = self.base / f"tree{self.numbers}" / f"Date={DAY}"
        tree.mkdir(parents=True)
        kinds = {"A": pa.int64(), "G": pa.string()}
        arrays = {name: pa.array([value], kinds.get(name, pa.int32())) for name, value in self.kept[0].items()}
        pq.write_table(pa.table(arrays), tree / "x.parquet")
        self.command("import", TABLE, "--from", str(tree.parent), "--replace")

    def move(self) -> None:
        self.command("dates", "move", TABLE, "--dates", DAY, "--to", "other")

    # --- what holds after each
    def check(self, told: str) -> None:
        names = ["A", "G", *self.columns]
        found = open_table(self.root, TABLE).to_arrow(names).to_pylist()
        expected = [{name: row.get(name) for name in names} for row in self.kept]
        assert sorted(found, key=str) == sorted(expected, key=str), told
        verified = run(self.root, "verify", TABLE, "--deep")
        assert verified.exit_code == 0, (told, verified.stdout)
        if self.kept:
            validated = run(self.root, "validate", TABLE, "--dates", DAY)
            assert validated.exit_code == 0, (told, validated.stdout)

    def can(self, step: str) -> bool:
        if step == "attach":
            return bool(self.away)
        return bool(self.kept) or step in ("late", "withdrawn", "column", "rename", "given")

    def play(self, steps: list[str]) -> None:
        for number, step in enumerate(steps):
            getattr(self, step)()
            self.check(" ".join(steps[: number + 1]))


AFTER = ["late", "remerge", "correct", "forget", "move", "detach attach", "detach given attach"]


@pytest.mark.parametrize("after", AFTER)
@pytest.mark.parametrize("partitions", [1, 2])
def test_a_date_in_several_locations_of_one_partition_is_attached_and_goes_on(
    tmp_path: Path, after: str, partitions: int
) -> None:
    Dated(tmp_path, partitions).play(f"late late detach attach {after} end".split())


@pytest.mark.parametrize(
    "steps",
    [
        "late column late end",
        "late column late detach attach end",
        "late column late detach late end attach end",
        "late forget column late forget end",
        "late forget column late forget late end",
        "withdrawn column withdrawn end",
        "withdrawn column withdrawn remerge detach attach end",
        "withdrawn rename correct end",
        "late rename forget correct remerge end",
        "late forget rename column late correct end",
        "late detach given attach end",
        "late detach given drop attach remerge",
        "late detach attach drop attach end",
        "late detach attach late given attach drop attach end",
        "late late detach late attach late end",
        "late move late detach attach late end",
    ],
)
def test_columns_and_rows_that_come_and_go_leave_the_proof_of_a_date_whole(tmp_path: Path, steps: str) -> None:
    Dated(tmp_path, 1).play(steps.split())


STEPS = ["late", "withdrawn", "column", "rename", "remerge", "forget", "correct", "move"]
STEPS += ["detach", "attach", "drop", "given"]


@pytest.mark.campaign
@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_any_order_of_steps_leaves_every_row_once(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    date = Dated(tmp_path, 1 + seed % 2)
    done: list[str] = []
    for _ in range(14):
        step = rng.choice([name for name in STEPS if date.can(name)] + ["late", "late"])
        done.append(step)
        getattr(date, step)()
        date.check(" ".join(done))

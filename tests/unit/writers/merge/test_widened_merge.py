"""Merges over locations of several forms, and history from before a widening: the rows of every reader stay."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from sparkhaven.readers.arrow.opening import open_table
from sparkhaven.readers.arrow.snapshot import pinned_of
from sparkhaven.store.expressions.predicate.expression import parse_predicate
from tests.support.commands import run
from tests.support.streams.schema_site import DAY, TABLE, Site

XML = """<Table namespace="Test" name="Event" storageType="NestedPartitionedOnDisk">
<Partitions keyFormula="${{autobalance_by_first_grouping_column}}"/>
<Column name="Date" dataType="String" columnType="Partitioning"/><Column name="A" dataType="long"/>
<Column name="G" dataType="{G}" columnType="Grouping"/><Column name="I" dataType="{I}"/>
<Column name="F" dataType="{F}"/><Column name="T" dataType="String"{T}/><DataIndex columns="I"/></Table>
"""
NARROW = {"G": "byte", "I": "short", "F": "float", "T": ""}
MIDDLE = {"G": "short", "I": "int", "F": "double", "T": ' symbolTable="None"'}
WIDE = {"G": "int", "I": "long", "F": "double", "T": ' symbolTable="None"'}
COLUMNS = ("A", "G", "I", "F", "T")
Row = dict[str, Any]


class Widening(Site):
    """A site whose rows are kept beside it."""

    def __init__(self, base: Path) -> None:
        super().__init__(base)
        self.random, self.kept = random.Random(base.name), list[Row]()

    @classmethod
    def of_two_streams(cls, base: Path) -> Widening:
        """A new site with the narrow forms, streams s and t, two storage partitions, and a batch of the first."""
        base.mkdir()
        site = cls(base)
        site.declare(NARROW)
        for name in ("s", "t"):
            site.stream(name)
        for number in ("0", "1"):
            site.do("partitions", "add", "Test", number)
        site.batch("s", 30_000)
        return site

    def declare(self, forms: dict[str, str]) -> None:
        self.write(XML.format(**forms))

    def batch(self, name: str, scale: int, count: int = 400) -> None:
        """Rows of a source; whole numbers reach up to ``scale``, and some of everything is null."""
        chance, first = self.random, len(self.kept)
        rows = [
            {
                "A": first + n,
                "G": chance.choice([None, *range(-3, 4), min(scale, 100)]),
                "I": chance.choice([None, chance.randrange(-9, 9), scale]),
                "F": chance.choice([None, n / 8, -0.0]),
                "T": chance.choice([None, "", f"text {n % 7}", f"ä€{n}"]),
            }
            for n in range(count)
        ]
        self.kept += rows
        (self.base / name / f"{first:06}.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
        self.ingest(name=name)

    def check(self, *, by_index: bool = False) -> None:
        """The rows in every reader; filters on each column."""
        table = open_table(self.root, TABLE)
        for _ in range(2):
            found = sorted(table.to_arrow(list(COLUMNS)).to_pylist(), key=lambda row: row["A"])
            assert repr(found) == repr(self.kept)
        for name, value in (("G", 2), ("I", 5), ("I", 30_000), ("F", 2.5), ("T", "text 3")):
            literal = f"'{value}'" if isinstance(value, str) else value
            expected = [row["A"] for row in self.kept if row[name] == value]
            assert sorted(table.to_arrow(["A"], where=f"{name} = {literal}")["A"].to_pylist()) == expected, name
            assert table.count(where=f"{name} in ({literal})") == len(expected)
        if by_index:
            pinned = pinned_of(table)
            slices = pinned.plan(where=parse_predicate("I = 5", pinned.schema)).slices
            assert sum(part.count for part in slices) == sum(row["I"] == 5 for row in self.kept)
        assert run(self.root, "verify", TABLE, "--deep").exit_code == 0


@pytest.fixture
def site(tmp_path: Path) -> Widening:
    site = Widening(tmp_path)
    site.declare(NARROW)
    for name in ("s", "t"):
        site.stream(name)
    for part in ("0", "1"):
        assert run(site.root, "partitions", "add", "Test", part).exit_code == 0
    site.batch("s", 30_000)
    return site


@pytest.mark.parametrize("form", ["deephaven", "parquet"])
def test_a_night_brings_all_forms_to_the_newest(site: Widening, form: str) -> None:
    for forms in (MIDDLE, WIDE):
        site.declare(forms)
        site.deploy()
        site.check()
    site.batch("s", 30_000)
    site.batch("t", 1 << 40)
    site.check()
    site.merge("--format", form)
    site.check(by_index=True)
    for words in (["validate"], ["truncate"], ["delete", "--grace", "0"]):
        site.do(words[0], TABLE, "--date", DAY, *words[1:])
    site.check(by_index=True)


@pytest.mark.parametrize("form", ["deephaven", "parquet"])
@pytest.mark.parametrize("again", ["deephaven", "parquet"])
def test_history_of_an_older_form_is_read_validated_and_merged_again(site: Widening, form: str, again: str) -> None:
    site.merge("--format", form)
    site.check(by_index=True)
    site.declare(MIDDLE)
    site.deploy()
    site.check()
    for words in (["validate"], ["truncate"], ["delete", "--grace", "0"]):
        site.do(words[0], TABLE, "--date", DAY, *words[1:])
    site.check()
    site.declare(WIDE)
    site.deploy()
    site.batch("t", 1 << 40)
    site.check()
    site.merge("--format", again)
    site.check()
    site.night()
    site.check()

"""The Spark reader in Java, without Spark: rows of each type and form as Python's source has them, and its errors."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterable
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from sparkhaven.readers.spark.options import ReadOptions
from sparkhaven.store.layout import LocationKey
from sparkhaven.writers.partitions import add_partition
from tests.contracts.codings.coded_readers import CODED_NAME, LAST, NEXT, CodedSnapshot
from tests.support.spark.java_rows import by_java, by_python, options_of, plan_of
from tests.support.streams.schema_site import DAY as SITE_DAY
from tests.support.streams.schema_site import TABLE as SITE_TABLE
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.tables.null_chars import FORMS, OLD, rows_with, table_in
from tests.support.tables.null_chars import NAME as CHARS
from tests.support.tables.small_tables import SmallTable
from tests.support.writers.coded_rows import COLUMNS, DAY, SCHEMA, TABLE, coded_row, coded_table
from tests.support.writers.merge_runs import FS, merge
from tests.unit.readers.test_withdrawn_rows import withdraw
from tests.unit.writers.merge.test_widened_merge import MIDDLE, WIDE, Widening

pytestmark = pytest.mark.jvm

NOT_IN_PARQUET = ("Wide",)  # more digits than Spark's reader of Parquet has
FITTING = ",".join(("Date", "Sym", "N", *(name for name in COLUMNS if name not in NOT_IN_PARQUET)))
CHOICES = [
    {"char": char, "instant": instant}
    for char, instant in product(("int", "string"), ("timestamp", "timestamp-truncate", "long"))
]


def same(reads: Iterable[ReadOptions], scratch: Path) -> list[list[str]]:
    """The rows of each read, which Java and Python have alike; errors are alike in all parts but the place."""
    listed = list(reads)
    results = by_java(listed, scratch)
    for options, java in zip(listed, results, strict=True):
        python = by_python(options)
        if len(python) == 1 and "Error: " in python[0]:
            assert parts(python[0]) <= parts(java[0]), options
        else:
            assert java == python, options
    return results


def parts(error: str) -> set[str]:
    """The lines of an error; the column is part of the place in Java."""
    return {line.replace("  column: ", "  where: column ") for line in error.splitlines()}


def test_every_type_of_both_formats_with_each_option(coded_snapshot: CodedSnapshot, tmp_path: Path) -> None:
    root = coded_snapshot.root
    files = [options_of(root, CODED_NAME, dates=f"{NEXT},{LAST}", **chosen) for chosen in CHOICES]
    parquet = [options_of(root, CODED_NAME, columns=FITTING, **chosen) for chosen in CHOICES]
    results = same([*files, *parquet], tmp_path)
    assert [len(rows) for rows in results] == [25] * len(CHOICES) + [60] * len(CHOICES)
    for column in NOT_IN_PARQUET:
        reason = plan_of(options_of(root, CODED_NAME, columns=column))
        assert isinstance(reason, str) and column in reason
        assert isinstance(plan_of(options_of(root, CODED_NAME, columns=column, dates=LAST)), bytes)


def test_widened_columns_in_each_form_and_format(tmp_path: Path) -> None:
    site = Widening.of_two_streams(tmp_path / "site")
    reads: list[ReadOptions] = []

    def keep() -> None:
        root = shutil.copytree(site.root, tmp_path / str(len(reads)))
        reads.append(options_of(root, SITE_TABLE))

    for forms, form in ((MIDDLE, "parquet"), (WIDE, "deephaven")):
        site.declare(forms)
        site.deploy()
        keep()
        site.batch("t", 30_000)
        keep()
        site.merge("--format", form)
        keep()
    results = same(reads, tmp_path)
    assert [len(rows) for rows in results] == [400, 800, 800, 800, 1200, 1200]


def test_another_null_of_chars(tmp_path: Path) -> None:
    roots = {form: table_in(tmp_path / form, form, rows_with(OLD)).root for form in FORMS}
    old = {form: options_of(root, CHARS, char="int", nullChar="0xFFFE") for form, root in roots.items()}
    reason = plan_of(old.pop("parquet"))
    assert isinstance(reason, str) and "Parquet" in reason
    results = same([*old.values(), *(options_of(root, CHARS, char="int") for root in roots.values())], tmp_path)
    assert results[0] == results[1] != results[2] == results[3] == results[4]


def test_withdrawn_rows_new_columns_and_many_groups(tmp_path: Path) -> None:
    small = SmallTable(tmp_path / "db")
    rng = random.Random(5)
    for number in range(4):
        rows: dict[str, list[Any]] = {"Sym": [f"s{n % 999}" for n in range(3_000)]}
        if number:
            rows["Size"] = [rng.randrange(50) for _ in range(3_000)]
        small.add("a", SITE_DAY, rows)
    before = shutil.copytree(small.root, tmp_path / "before")
    gone = [row for row in range(12_000) if rng.random() < 0.001 or row // 3000 == 2]
    withdraw(small, gone, LocationKey("a", SITE_DAY))
    db = IntradayRows(tmp_path / "grouped", SCHEMA, fs=FS)
    table = coded_table(db.schema, [coded_row(rng, number) | {"Sym": f"s{number}"} for number in range(300)])
    db.commit({("a", DAY): table})
    add_partition(FS, db.layout, TABLE.namespace, "0")
    merge(db.layout, DAY, table=TABLE)
    assert list(db.root.rglob("Sym.ovr"))
    grouped = options_of(db.root, str(TABLE), columns="Sym,N,Tags")
    early = options_of(before, "NS.T", epoch="2")  # its files grow under the reader
    results = same([early, options_of(before, "NS.T"), options_of(small.root, "NS.T"), grouped], tmp_path)
    assert [len(rows) for rows in results] == [6_000, 12_000, 12_000 - len(gone), 300]


def test_damage_is_the_same_finding(tmp_path: Path) -> None:
    db = IntradayRows(tmp_path / "db", SCHEMA, fs=FS)
    rng = random.Random(4)
    db.commit({("a", DAY): coded_table(db.schema, [coded_row(rng, number) for number in range(40)])})
    add_partition(FS, db.layout, TABLE.namespace, "0")
    directory = db.layout.intraday_location(TABLE, LocationKey("a", DAY)).relative_to(db.root)
    names = [path.name for path in (db.root / directory).iterdir() if path.suffix in (".dat", ".bytes", ".sym")]
    reads = []
    for suffix in (".dat", ".bytes", ".sym"):
        root = shutil.copytree(db.root, tmp_path / suffix)
        for name in names:
            if name.endswith(suffix):
                _change(root / directory / name, -1)
                chosen = {"columns": name.partition(".")[0], "char": "int", "instant": "long"}
                reads.append(options_of(root, str(TABLE), **chosen))
                reads.append(options_of(root, str(TABLE), **chosen, checksumVerify="off"))
    merge(db.layout, DAY, table=TABLE, format="parquet")
    for damage in (_change, _cut, Path.unlink):
        root = shutil.copytree(db.root, tmp_path / damage.__name__)
        parquet = min((root / "Systems").rglob("table.parquet"))
        damage(parquet)
        reads.append(options_of(root, str(TABLE), columns="N,Texts"))
    results = same(reads, tmp_path)
    assert len(names) > 40
    assert all("checksum does not match" in result[0] for result in results[: 2 * len(names) : 2])
    assert sum("Error: " in result[0] for result in results[1 : 2 * len(names) : 2]) > 20
    assert all("Error: " in result[0] for result in results[-3:])


def _change(path: Path, place: int | None = None) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2 if place is None else place] ^= 0x41
    path.write_bytes(data)


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])

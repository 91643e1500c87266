"""A real Deephaven engine reads exported trees of every layout, and history with its index; one start for all.

History lies in two storage partitions, its indexes give the rows that filters give without them, and a table that is
open shows a date that is published later, behind dates that are not there.
"""

from __future__ import annotations

import json
import random
import subprocess
from collections import Counter
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from sparkhaven.store.format.parquet.trees import TreeLayout
from sparkhaven.writers.merge.sources.merge_source import BlockSizes
from sparkhaven.writers.partitions import add_partition
from tests.support.commands import run
from tests.support.places import REPOSITORY
from tests.support.served import PYTHON, require_engine
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers import odd_values
from tests.support.writers.coded_rows import COLUMNS, coded_row, coded_table, key_text
from tests.support.writers.export_cases import export, found, two_days, wanted
from tests.support.writers.merge_cases import DAY, TABLE, as_table
from tests.support.writers.merge_runs import FS, make, merge

pytestmark = pytest.mark.deephaven
READER = REPOSITORY / "tests" / "deephaven" / "tree_reader.py"
ODD_LAYOUTS: tuple[TreeLayout, ...] = ("nested", "kv", "metadata", "hive")
LATER = "2024-04-01"
LAYOUTS = ("nested", "flat", "kv", "metadata", "hive")


def test_the_engine_finds_the_rows_of_every_layout_and_the_index_of_history(tmp_path: Path) -> None:
    require_engine()
    db, rows = two_days(tmp_path / "db")
    trees: dict[str, list[object]] = {}
    for layout in LAYOUTS:
        export(db.root, tmp_path / layout, layout=layout)
        trees[layout] = [layout, str(tmp_path / layout), TABLE.table, {}]
    history, merged = make(tmp_path / "history", 90)
    merge(history.layout, format="parquet", sizes=BlockSizes(group_rows=4))
    trees["history"] = ["nested", str(history.layout.partitions("Test")), TABLE.table, {"Sym": None}]
    trees["coded"], coded_counts = coded_history(tmp_path / "coded")
    levels = level_trees(tmp_path)
    trees |= levels
    odd = odd_values.make(tmp_path / "odd", odd_values.ODD)
    for layout in ODD_LAYOUTS:
        tree = odd_values.export(odd, tmp_path / f"odd-{layout}", layout)
        trees[f"odd-{layout}"] = [layout, str(tree), "T", {}]
    out = tmp_path / "read"
    out.mkdir()
    line = [str(PYTHON), "-P", str(READER), json.dumps(trees), str(out)]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        report = next(json.loads(said) for said in running.stdout if said.startswith("{"))
        history.commit({("a", LATER): as_table([row for row in merged if row["Sym"] is not None][:7])})
        merge(history.layout, LATER, format="parquet")
        grown, _ = running.communicate(json.dumps({"history": 97}) + "\n", timeout=300)
    assert json.loads(grown.splitlines()[-1]) == {"history": 97}
    assert len([*history.layout.partitions("Test").glob(f"*/{DAY}")]) == 2
    by_symbol = Counter(row["Sym"] for row in merged if row["Sym"] and row["Sym"].isalnum())
    assert sorted(report["history"]["same"]["Sym"][::2]) == sorted(by_symbol.values())
    coded = report.pop("coded")
    assert coded["index"] is True
    assert {column: counts[::2] for column, counts in coded["same"].items()} == coded_counts
    for name in levels:
        with pa.ipc.open_file(out / f"{name}.arrow") as file:
            table = file.read_all()
        rows_of = zip(*(table[column].to_pylist() for column in ("Date", "Venue", "Level", "L")), strict=True)
        assert sorted((str(day), *others) for day, *others in rows_of) == LEVEL_ROWS, name
        assert report.pop(name)["rows"] == len(LEVEL_ROWS)
    counts = dict.fromkeys(LAYOUTS, len(rows)) | {f"odd-{name}": len(odd_values.ODD) for name in ODD_LAYOUTS}
    assert {name: each["rows"] for name, each in report.items()} == counts | {"history": 90}
    assert report["history"]["index"] is True
    for name in report:
        with pa.ipc.open_file(out / f"{name}.arrow") as file:
            table = file.read_all()
        table = table.set_column(table.schema.get_field_index("Date"), "Date", table["Date"].cast(pa.string()))
        if name.startswith("odd-"):
            pairs = zip(table["Date"].to_pylist(), table["X"].to_pylist(), strict=True)
            assert sorted(pairs) == sorted((value, value) for value in odd_values.ODD), name
            continue
        assert found(table) == wanted(rows if name != "history" else [(DAY, row) for row in merged]), name


def coded_history(root: Path) -> tuple[list[object], dict[str, list[int]]]:
    """A tree with indexes over columns with a codec, conditions for each of them, and how many rows these have."""
    names = ("Day", "Far", "Clock", "Short", "Px", "Wide", "Whole")
    columns = "".join(f'<Column name="{name}" {COLUMNS[name]}/>' for name in names)
    indexes = "".join(f'<DataIndex columns="{name}"/>' for name in names)
    start = '<Table namespace="Test" name="Coded" storageType="NestedPartitionedOnDisk">'
    date = '<Column name="Date" dataType="String" columnType="Partitioning"/><Column name="L" dataType="long"/>'
    db = IntradayRows(root, f"{start}{date}{columns}{indexes}</Table>".encode(), fs=FS)
    chance = random.Random(5)
    keys = [coded_row(chance, number) for number in range(7)]
    rows = [{"L": number} | {name: chance.choice(keys)[name] for name in names} for number in range(60)]
    db.commit({("a", DAY): coded_table(db.schema, rows)})
    add_partition(FS, db.layout, "Test", "0")
    merge(db.layout, table=db.table, format="parquet", sizes=BlockSizes(group_rows=3))
    asked: dict[str, list[str]] = {}
    counts: dict[str, list[int]] = {}
    for name in names:
        values = Counter(row[name] for row in rows if row[name] is not None)
        quote = "" if isinstance(next(iter(values)), Decimal) else "'"
        asked[name] = [f"{name} = {quote}{key_text(name, value)}{quote}" for value in values]
        counts[name] = [*values.values()]
    return ["nested", str(db.layout.partitions("Test")), "Coded", asked], counts


VENUES = ("XA", "XB", "XC")  # an engine takes one letter for a char
LEVEL_ROWS = [(DAY, venue, level, 3 * level + number) for level in (1, 2) for number, venue in enumerate(VENUES)]
LEVEL_ROWS.sort()


def level_trees(root: Path) -> dict[str, list[object]]:
    """Trees with three levels of directories, by layout."""
    start = '<Table namespace="Test" name="Levels" storageType="NestedPartitionedOnDisk">'
    date = '<Column name="Date" dataType="String" columnType="Partitioning"/><Column name="L" dataType="long"/>'
    others = '<Column name="Venue" dataType="String"/><Column name="Level" dataType="int"/></Table>'
    db = IntradayRows(root / "levels", f"{start}{date}{others}".encode(), fs=FS)
    kinds = (pa.string(), pa.int32(), pa.int64())
    values = list(zip(*LEVEL_ROWS, strict=True))[1:]
    arrays = [pa.array(part, kind) for part, kind in zip(values, kinds, strict=True)]
    db.commit({("a", DAY): pa.table(dict(zip(("Venue", "Level", "L"), arrays, strict=True)))})
    trees: dict[str, list[object]] = {}
    for layout in ("kv", "metadata", "hive"):
        out = root / f"levels-{layout}"
        words = ("--layout", layout, "--by", "Venue,Level", "--out", str(out))
        assert run(db.root, "export", "Test.Levels", *words).exit_code == 0
        trees[f"levels-{layout}"] = [layout, str(out), "Levels", {}]
    return trees

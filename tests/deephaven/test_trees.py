"""A real Deephaven engine reads exported trees of every layout, and history with its index; one start for all.

History lies in two storage partitions, its indexes give the rows that filters give without them, and a table that is
open shows a date that is published later, behind dates that are not there.
"""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest

from sparkhaven.store.format.parquet.trees import TreeLayout
from tests.support.places import REPOSITORY
from tests.support.served import PYTHON, require_engine
from tests.support.writers import odd_values
from tests.support.writers.export_cases import export, found, two_days, wanted
from tests.support.writers.merge_cases import DAY, TABLE, as_table
from tests.support.writers.merge_runs import make, merge

pytestmark = pytest.mark.deephaven
READER = REPOSITORY / "tests" / "deephaven" / "tree_reader.py"
ODD_LAYOUTS: tuple[TreeLayout, ...] = ("nested", "kv", "metadata", "hive")
LATER = "2024-04-01"
LAYOUTS = ("nested", "flat", "kv", "metadata", "hive")


def test_the_engine_finds_the_rows_of_every_layout_and_the_index_of_history(tmp_path: Path) -> None:
    require_engine()
    db, rows = two_days(tmp_path / "db")
    trees = {}
    for layout in LAYOUTS:
        export(db.root, tmp_path / layout, layout=layout)
        trees[layout] = [layout, str(tmp_path / layout), TABLE.table, []]
    history, merged = make(tmp_path / "history", 90)
    merge(history.layout, format="parquet")
    trees["history"] = ["nested", str(history.layout.partitions("Test")), TABLE.table, ["Sym"]]
    odd = odd_values.make(tmp_path / "odd", odd_values.ODD)
    for layout in ODD_LAYOUTS:
        tree = odd_values.export(odd, tmp_path / f"odd-{layout}", layout)
        trees[f"odd-{layout}"] = [layout, str(tree), "T", []]
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
    assert sorted(report["history"]["same"][0][::2]) == sorted(by_symbol.values())
    counts = dict.fromkeys(LAYOUTS, len(rows)) | {f"odd-{name}": len(odd_values.ODD) for name in ODD_LAYOUTS}
    assert {name: each["rows"] for name, each in report.items()} == counts | {"history": 90}
    assert report["history"]["index"] is True
    for name in trees:
        with pa.ipc.open_file(out / f"{name}.arrow") as file:
            table = file.read_all()
        table = table.set_column(table.schema.get_field_index("Date"), "Date", table["Date"].cast(pa.string()))
        if name.startswith("odd-"):
            pairs = zip(table["Date"].to_pylist(), table["X"].to_pylist(), strict=True)
            assert sorted(pairs) == sorted((value, value) for value in odd_values.ODD), name
            continue
        assert found(table) == wanted(rows if name != "history" else [(DAY, row) for row in merged]), name

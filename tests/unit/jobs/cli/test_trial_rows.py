"""What `ingest --dry-run`, `schema infer` and a run say of rows before they are stored: headers, misspelt names."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.commands import run, run_json

SCHEMA = """<Table namespace="F" name="T" storageType="NestedPartitionedOnDisk">
  <Partitions keyFormula="${autobalance_single}"/>
  <Column name="Date" dataType="String" columnType="Partitioning"/>
  <Column name="Sym" dataType="String"/>
</Table>
"""
STREAM = """name = "s"
table = "F.T"
schema = "F.T.schema"
[feed]
type = "files"
path = "feed"
format = "%s"
settle = "0 s"
[columns]
%s
[partition]
internal = %s
value = %s
[bad_rows]
max_rows = 0
"""
FIXED, DAY = '{ fixed = "0" }', '{ fixed = "2026-11-20" }'
ROWS = [{"Sym": sym, "Exchange": "N", "At": "2026-11-20T10:00:00Z"} for sym in "AB"]


def stream(base: Path, kind: str, *, internal: str = FIXED, value: str = DAY, columns: str = "") -> str:
    (base / "F.T.schema").write_text(SCHEMA)
    (base / "s.toml").write_text(STREAM % (kind, columns, internal, value))
    return str(base / "s.toml")


def feed(base: Path, kind: str) -> None:
    """Two rows with the fields Sym, Exchange and At."""
    (base / "feed").mkdir()
    if kind == "parquet":
        pq.write_table(pa.Table.from_pylist(ROWS), base / "feed" / "a.parquet")
        return
    row = '{{"Sym":"{Sym}","Exchange":"{Exchange}","At":"{At}"}}\n' if kind == "json" else "{Sym},{Exchange},{At}\n"
    head = "" if kind == "json" else "Sym,Exchange,At\n"
    (base / "feed" / f"a.{kind}").write_text(head + "".join(row.format(**each) for each in ROWS))


@pytest.mark.parametrize("kind", ["json", "csv", "parquet"])
@pytest.mark.parametrize(
    ("wrong", "right"), [("Exchang", "Exchange"), ("exchange", "Exchange"), ("Att", "At")], ids=lambda name: name
)
def test_a_misspelt_routing_field_is_told_by_the_dry_run_and_the_run(
    tmp_path: Path, kind: str, wrong: str, right: str
) -> None:
    feed(tmp_path, kind)
    rule = {"value" if right == "At" else "internal": f'{{ column = "{wrong}" }}'}
    file = stream(tmp_path, kind, **rule)
    dry = run(tmp_path / "db", "ingest", file, "--dry-run")
    done = run(tmp_path / "db", "ingest", file, "--once", "--local")
    assert done.exit_code == 1
    for found in (dry.stdout + dry.stderr, done.stderr):
        if kind == "json":
            assert f"The row has no field {wrong}: did you mean {right}?" in found
        else:
            assert "that the partition needs" in found and "missing_columns" not in found
            hint = re.search(r"write (.+?) under \[columns\]", found)
            assert hint is not None and hint[1] == f'{wrong} = {{ from = "{right}" }}'
    code, value = run_json(tmp_path / "db", "ingest", file, "--dry-run")
    assert code == (0 if kind == "json" else 1)
    assert kind != "json" or (value["sample"]["rows"], value["sample"]["rejected"]) == (2, 2)
    file = stream(tmp_path, kind, columns=f'{wrong} = {{ from = "{right}" }}', **rule)  # as the hint says
    code, value = run_json(tmp_path / "db", "ingest", file, "--dry-run")
    sample = {"rows": 2, "rejected": 0, "first": [], "absent": {}}
    assert (code, {name: value["sample"][name] for name in sample}) == (0, sample)
    assert set(value["sample"]["ignored"]) <= {"At", "Exchange"} - {right}  # the other one, which no column takes
    assert run_json(tmp_path / "db", "ingest", file, "--once", "--local")[1]["rows"] == 2


def test_a_dry_run_takes_no_row_and_makes_nothing(tmp_path: Path) -> None:
    feed(tmp_path, "json")
    file = stream(tmp_path, "json")
    for _ in range(2):
        code, value = run_json(tmp_path / "db", "ingest", file, "--dry-run")
        assert (code, value["waiting_files"], value["sample"]["rows"]) == (0, 1, 2)
    assert not (tmp_path / "db").exists()
    (tmp_path / "feed" / "a.json").unlink()
    assert run_json(tmp_path / "db", "ingest", file, "--dry-run")[1]["sample"] is None


HEADERLESS = "AAPL,268.5,100,2026-11-20T14:30:00Z\nIBM,307.25,50,2026-11-20T14:30:01Z\n"


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_infer_and_new_take_a_first_row_for_a_row(tmp_path: Path, separator: str) -> None:
    (tmp_path / "feed").mkdir()
    (tmp_path / "feed" / "a.csv").write_text(HEADERLESS.replace(",", separator))
    schema, source = str(tmp_path / "F.T.schema"), str(tmp_path / "feed")
    found = run(tmp_path / "db", "schema", "infer", source, "--table", "F.T", "--out", schema)
    assert found.exit_code == 0 and "the first line of a.csv is taken for a row (268.5, 100, " in found.stderr
    made = run(tmp_path / "db", "schema", "new", schema, source, "--name", "s")
    assert made.exit_code == 0 and "is taken for a row" in made.stderr
    text = (tmp_path / "s.toml").read_text()
    assert 'header = false\nnames = ["Column1", "Column2", "Column3", "Column4"]' in text
    done = run_json(tmp_path / "db", "ingest", str(tmp_path / "s.toml"), "--once", "--local")
    assert (done[0], done[1]["rows"]) == (0, 2)


def test_a_declared_header_that_looks_like_a_row_is_told(tmp_path: Path) -> None:
    (tmp_path / "feed").mkdir()
    (tmp_path / "feed" / "a.csv").write_text("Sym,268.5\nIBM,307.25\nMSFT,478\n")
    file = stream(tmp_path, "csv")
    said = "the first line of a.csv looks like a row, not like a header (268.5)"
    dry = run(tmp_path / "db", "ingest", file, "--dry-run")
    assert dry.exit_code == 0 and said in dry.stdout and "header = false" in dry.stdout
    assert run_json(tmp_path / "db", "ingest", file, "--dry-run")[1]["remarks"][0].startswith(said)
    inferred = run(tmp_path / "db", "schema", "infer", file, "--table", "F.T")
    assert inferred.exit_code == 0 and said in inferred.stderr and said in inferred.stdout
    done = run(tmp_path / "db", "ingest", file, "--once", "--local")
    assert done.exit_code == 0 and said in " ".join(done.stderr.split())


def test_plain_headers_say_nothing(tmp_path: Path) -> None:
    (tmp_path / "feed").mkdir()
    (tmp_path / "feed" / "a.csv").write_text("Sym,2024,2025\nIBM,307.25,1\nMSFT,478,2\n")
    file = stream(tmp_path, "csv")
    assert run_json(tmp_path / "db", "ingest", file, "--dry-run")[1]["remarks"] == []
    assert "looks like" not in run(tmp_path / "db", "schema", "infer", str(tmp_path / "feed")).stderr

"""`sparkhaven schema from-tbl|diff|history`, and what `verify` says of a location's definition."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sparkhaven.store.format.table.definition import ColumnDefinition, Definition
from sparkhaven.store.format.table.tbl import decode_tbl, encode_tbl
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.schema.deployed.deploy import deploy
from sparkhaven.store.schema.deployed.schema_changes import Consent
from tests.support.commands import run, run_json
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.merge_cases import DAY, SCHEMA, TABLE, as_table
from tests.support.writers.merge_runs import make, merge
from tests.support.writers.plain_rows import plain_rows

NAME = str(TABLE)


@pytest.fixture
def db(tmp_path: Path) -> IntradayRows:
    made, _ = make(tmp_path / "db", 0)
    rows = [row | {"L": 1, "S": 1} for row in plain_rows()]
    made.commit({("a", DAY): as_table(rows[:5])})
    return made


def location(db: IntradayRows) -> Path:
    return db.place.intraday_location(LocationKey("a", DAY))


def second_version(db: IntradayRows) -> Path:
    """Deploys a schema that drops Note and adds More; the file of the first version is returned."""
    old = db.root.parent / "old" / f"{NAME}.schema"
    old.parent.mkdir()
    old.write_bytes(SCHEMA)
    text = SCHEMA.replace(b'<Column name="Note" dataType="String" symbolTable="None" encoding="UTF_8"/>', b"")
    assert text != SCHEMA
    text = text.replace(b"</Table>", b'<Column name="More" dataType="int[]"/></Table>')
    deploy(Fs(), db.layout, text, consent=Consent(drop=("Note",)))
    return old


def test_from_tbl_writes_the_schema_of_a_location(db: IntradayRows) -> None:
    out = db.root.parent / f"{NAME}.schema"
    for subject in (location(db), location(db) / "table.tbl"):
        code, value = run_json(db.root, "schema", "from-tbl", str(subject), "--out", str(out), "--force")
        assert (code, value["table"], value["file"]) == (0, NAME, str(out))
    assert run(db.root, "schema", "check", str(out)).exit_code == 0
    assert run_json(db.root, "schema", "diff", NAME, str(out))[1]["dropped"] == []
    code, value = run_json(db.root, "schema", "diff", str(location(db) / "table.tbl"), str(out))
    assert (code, value["equal"], value["differences"]) == (0, True, [])


def test_from_tbl_prints_without_out_and_in_a_dry_run(db: IntradayRows) -> None:
    out = db.root.parent / "x.schema"
    printed = run(db.root, "schema", "from-tbl", str(location(db))).stdout
    dry = run(db.root, "schema", "from-tbl", str(location(db)), "--out", str(out), "--dry-run").stdout
    assert printed == dry and printed.startswith(f'<Table namespace="{TABLE.namespace}"') and not out.exists()


def test_from_tbl_names_what_is_wrong(db: IntradayRows, tmp_path: Path) -> None:
    missing = run(db.root, "schema", "from-tbl", str(tmp_path / "no.tbl"))
    assert missing.exit_code == 2 and "no such file" in missing.stderr
    empty = run(db.root, "schema", "from-tbl", str(tmp_path))
    assert empty.exit_code == 2 and "no table definition" in empty.stderr
    (tmp_path / "cut.tbl").write_bytes((location(db) / "table.tbl").read_bytes()[:900])
    cut = run(db.root, "schema", "from-tbl", str(tmp_path / "cut.tbl"))
    assert cut.exit_code == 1 and "cut.tbl" in cut.stderr
    twice = ColumnDefinition("A", "int", component="long")
    columns = (ColumnDefinition("Date", "java.lang.String", 4), replace(twice, name="9A"))
    (tmp_path / "named.tbl").write_bytes(encode_tbl(Definition("NS", "T", columns)))
    named = run(db.root, "schema", "from-tbl", str(tmp_path / "named.tbl"))
    assert named.exit_code == 2 and "E111" in named.stderr


def test_diff_of_versions_and_of_tables(db: IntradayRows) -> None:
    old = second_version(db)
    code, value = run_json(db.root, "schema", "diff", str(old), NAME)
    assert (code, value["equal"], value["added"], value["dropped"]) == (1, False, ["More"], ["Note"])
    assert [(each["column"], each["attribute"], each["a"], each["b"]) for each in value["differences"]] == [
        ("Note", "column", "String, blob", None),
        ("More", "column", None, "int[], blob"),
    ]
    text = run(db.root, "schema", "diff", str(old), NAME)
    assert text.exit_code == 1 and "int[], blob" in text.stdout
    same = run(db.root, "schema", "diff", NAME, NAME)
    assert (same.exit_code, same.stdout) == (0, "no differences\n")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ((b'name="I" dataType="int"', b'name="I" dataType="long"'), ("I", "type", "int", "long")),
        ((b'name="Sym" dataType="String" columnType="Grouping"', b'name="Sym" dataType="String"'),
         ("Sym", "role", "grouping", "normal")),
        ((b"</Table>", b'<DataIndex columns="I"/></Table>'), (None, "data indexes", None, "I")),
        ((b"</Table>", b'<Validator><assertNotNull column="I"/></Validator></Table>'),
         (None, "rules", None, 'assertNotNull column="I"')),
    ],
)  # fmt: skip
def test_diff_names_each_difference(db: IntradayRows, change: tuple[bytes, bytes], words: tuple[Any, ...]) -> None:
    other = db.root.parent / "other" / f"{NAME}.schema"
    other.parent.mkdir()
    assert change[0] in SCHEMA
    other.write_bytes(SCHEMA.replace(*change))
    code, value = run_json(db.root, "schema", "diff", NAME, str(other))
    assert code == 1
    assert words in [tuple(difference.values()) for difference in value["differences"]]


def test_history_has_ids_and_times(db: IntradayRows) -> None:
    merge(db.layout)
    second_version(db)
    code, value = run_json(db.root, "schema", "history", NAME)
    first, second = value["versions"]
    assert code == 0
    assert first["first_rows"] is not None and first["first_rows"] <= first["last_rows"]
    assert second["first_rows"] is None and second["deployed"] is not None and "deployed" not in first
    assert (second["added"], second["dropped"]) == (["More"], ["Note"])
    assert second["ids"]["More"] == max(first["ids"].values()) + 1
    assert second["dropped_ids"] == {"Note": first["ids"]["Note"]}
    text = run(db.root, "schema", "history", NAME).stdout
    assert f"More ({second['ids']['More']})" in text and f"Note (id {first['ids']['Note']}): dropped" in text


def findings(db: IntradayRows) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = run_json(db.root, "verify", NAME)[1]["findings"]
    return listed


def test_verify_names_how_a_definition_differs(db: IntradayRows) -> None:
    path = location(db) / "table.tbl"
    definition = decode_tbl(path.read_bytes(), path)
    columns = [replace(c, data_type="long") if c.name == "I" else c for c in definition.columns if c.name != "Note"]
    path.write_bytes(encode_tbl(replace(definition, columns=tuple(columns))))
    (defect,) = findings(db)
    assert defect["what"] == "definition was never deployed for this table"
    assert defect["found"] == "I type: long / int; Note: none / String, blob"
    path.write_bytes(encode_tbl(replace(definition, name="Other")))
    assert findings(db)[0]["found"] == f"the definition of {TABLE.namespace}.Other"
    path.write_bytes(encode_tbl(replace(definition, storage_type=4)))
    assert findings(db)[0]["found"] == "storage type: 4 / 2"


def test_the_definition_of_an_older_version_is_right(db: IntradayRows) -> None:
    second_version(db)
    assert findings(db) == []


def test_table_tbl_comes_before_that_of_the_table(db: IntradayRows) -> None:
    own, other = location(db) / "table.tbl", location(db) / f"{TABLE.table}.tbl"
    other.write_bytes(b"damaged")
    assert findings(db) == []
    other.write_bytes(own.read_bytes())
    own.unlink()
    assert findings(db) == []
    other.write_bytes(b"damaged")
    (defect,) = findings(db)
    assert defect["path"] == str(other) and defect["what"] == "file is not a table.tbl"

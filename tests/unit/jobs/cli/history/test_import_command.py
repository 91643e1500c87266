"""The command ``import``: its JSON, its words, its exit codes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sparkhaven.store.layout import Layout
from tests.support.commands import run, run_json
from tests.support.writers.import_cases import SMALL, small, values, write


def test_import_reports_each_date(tmp_path: Path) -> None:
    layout = small(tmp_path / "db")
    write(tmp_path / "tree" / "Date=d1" / "a.parquet", [1, 2])
    words = "import", "NS.T", "--from", str(tmp_path / "tree")
    code, value = run_json(layout.root, *words, "--dry-run")
    assert (code, value["outcome"], value["rows"], value["layout"], value["digests"]) == (0, "planned", 2, "kv", {})
    assert values(layout) == []
    code, value = run_json(layout.root, *words)
    assert (code, value["date"], value["outcome"], value["destinations"]) == (0, "d1", "imported", {"0": 2})
    assert sorted(value["digests"]) == ["Sym", "X"]
    code, value = run_json(layout.root, *words)
    assert (code, value["outcome"], value["generation"]) == (0, "unchanged", 1)
    write(tmp_path / "tree" / "Date=d1" / "a.parquet", [3])
    code, value = run_json(layout.root, *words)
    assert (code, value["error"]["type"]) == (2, "TableExistsError")
    found = run(layout.root, *words, "--replace")
    assert (found.exit_code, found.stdout) == (0, "d1: imported 1 row in place of history into partition 0.g2\n")
    assert values(layout) == [3]


def test_a_date_that_cannot_be_stored_ends_with_an_error_and_the_others_go_on(tmp_path: Path) -> None:
    layout = small(tmp_path / "db")
    write(tmp_path / "tree" / "Date=d1" / "a.parquet", [2**40])
    write(tmp_path / "tree" / "Date=d2" / "a.parquet", [2])
    found = run(layout.root, "import", "NS.T", "--from", str(tmp_path / "tree"))
    assert found.exit_code == 2
    assert found.stdout == "d1: failed\nd2: imported 1 row into partition 0\n"
    assert "row group 0" in found.stderr
    assert values(layout) == [2]


def test_a_new_table_brings_its_schema(tmp_path: Path) -> None:
    schema = tmp_path / "NS.T.schema"
    schema.write_bytes(SMALL % b"int")
    write(tmp_path / "tree" / "a.parquet", [1])
    words = "import", "NS.T", "--from", str(tmp_path / "tree"), "--date", "d", "--schema", str(schema)
    assert run_json(tmp_path / "db", *words, "--dry-run")[0] == 0
    assert not (tmp_path / "db").exists()
    assert run_json(tmp_path / "db", *words)[0] == 0
    assert values(Layout(tmp_path / "db")) == [1]
    code, value = run_json(tmp_path / "db", *words[:1], "NS.U", *words[2:])
    assert (code, value["error"]["type"]) == (2, "SettingsError")


@pytest.mark.parametrize("kind", ["iceberg", "coreplus:iceberg", "delta"])
@pytest.mark.parametrize("command", ["schema check", "schema deploy", "ingest", "ingest --dry-run", "import"])
def test_a_tree_that_merges_do_not_write_is_refused_before_a_row_is_stored(
    tmp_path: Path, command: str, kind: str
) -> None:
    words = extended(tmp_path, kind)
    schema, stream = tmp_path / "NS.T.schema", tmp_path / "s.toml"
    stream.write_text(
        'name = "s"\ntable = "NS.T"\nschema = "NS.T.schema"\n[feed]\ntype = "files"\npath = "tree/*/*.parquet"\n'
        'format = "parquet"\n[partition]\ninternal = { fixed = "0" }\nvalue = { fixed = "d" }\n'
    )
    first, *more = command.split()
    asked = words if command == "import" else (first, *more, str(schema))
    if first == "ingest":
        asked = "ingest", str(stream), *(more or ("--once", "--local"))
    code, value = run_json(tmp_path / "db", *asked)
    told = json.dumps(value)
    assert code in (1, 2) and "E154" in told and kind in told and "parquet:kv" in told, value
    assert not (tmp_path / "db" / "Systems").exists()


def test_commands_that_change_history_bring_the_extended_tree_in_step(tmp_path: Path) -> None:
    found = run(tmp_path / "db", *extended(tmp_path, "parquet:kv"))
    tree = tmp_path / "db" / "Systems" / "NS" / "Extended" / "T"
    assert (found.exit_code, f"parquet:kv: 1 date written, 0 removed, {tree}" in found.stderr) == (0, True)
    (leaf,) = tree.rglob("*.parquet")
    assert leaf.relative_to(tree).as_posix() == "Date=d/part-history-00000.parquet"
    leaf.unlink()
    found = run(tmp_path / "db", "merge", "NS.T", "--date", "d", "--local")
    assert (found.exit_code, leaf.is_file()) == (0, True)
    leaf.write_bytes(b"x")
    found = run(tmp_path / "db", "verify")
    mend = f"sparkhaven --root {tmp_path / 'db'} merge NS.T --dates d --allow-empty"
    assert (found.exit_code, str(leaf) in found.output, mend in found.output) == (1, True, True)
    leaf.unlink()
    assert run(tmp_path / "db", *mend.split()[1:]).exit_code == 0
    found = run(tmp_path / "db", "verify", "--deep")
    assert (found.exit_code, found.output.strip().endswith("0 remarks")) == (0, True)
    code, value = run_json(tmp_path / "db", "stats", "NS.T")
    assert (code, value["extended"]["layout"], value["extended"]["files"]) == (0, "kv", 2)
    assert "extended" in run(tmp_path / "db", "stats", "NS.T").output


def extended(place: Path, kind: str) -> tuple[str, ...]:
    """Words that import a date into a new table with an extended layout."""
    schema = place / "NS.T.schema"
    schema.write_bytes((SMALL % b"int").replace(b"</Table>", f'<ExtendedStorage type="{kind}"/></Table>'.encode()))
    write(place / "tree" / "Date=d" / "a.parquet", [1])
    return "import", "NS.T", "--from", str(place / "tree"), "--schema", str(schema)


def test_a_second_partitioning_column_is_refused_before_rows_are_stored(tmp_path: Path) -> None:
    schema = tmp_path / "NS.T.schema"
    more = (
        b'<Column name="Hour" dataType="String" columnType="Partitioning"/><ExtendedStorage type="parquet:kv"/></Table>'
    )
    schema.write_bytes((SMALL % b"int").replace(b"</Table>", more))
    write(tmp_path / "tree" / "Date=d" / "a.parquet", [1])
    words = "import", "NS.T", "--from", str(tmp_path / "tree"), "--schema", str(schema)
    code, value = run_json(tmp_path / "db", *words)
    assert (code, value["error"]["found"]) == (1, "Date, Hour")


def test_lossy_and_bytes_are_options(tmp_path: Path) -> None:
    words = "import", "NS.T", "--from", str(tmp_path / "tree")
    layout = small(tmp_path / "db", "float")
    write(tmp_path / "tree" / "Date=d" / "a.parquet", [0.1], sym=[b"a"])  # type: ignore[list-item]
    code, value = run_json(layout.root, *words)
    assert code == 2 and "--binary-as-text" in value["error"]["hint"]
    code, value = run_json(layout.root, *words, "--binary-as-text")
    assert code == 2 and "--lossy X" in value["error"]["hint"]
    assert run_json(layout.root, *words, "--binary-as-text", "--lossy", "X")[0] == 0
    assert values(layout) == [0.10000000149011612] and values(layout, "Sym") == ["a"]
    code, value = run_json(layout.root, *words, "--lossy", "Sym")
    assert (code, value["error"]["expected"], value["error"]["found"]) == (2, "X", "Sym")

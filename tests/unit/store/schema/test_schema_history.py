"""The history of a deployed schema: lost, damaged, of older and newer forms."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from sparkhaven.store.errors import CorruptFileError, SchemaParseError, SparkhavenError, UnsupportedVersionError
from sparkhaven.store.layout import Layout
from sparkhaven.store.places import TablePlace
from sparkhaven.store.schema.deployed.deploy import deploy, load_deployed, load_history, standing_tables
from sparkhaven.store.schema.deployed.history import (
    ColumnVersion,
    Version,
    decode_history,
    encode_history,
    forms_of_ids,
)
from sparkhaven.store.types.datatypes import BY_NAME
from sparkhaven.store.types.model import Form, Storage
from tests.support.places import GOLDEN
from tests.support.tables.deployed import COLUMNS, FS, TABLE, ids, schema


def test_a_lost_schema_file_comes_back_from_a_history_without_texts(tmp_path: Path) -> None:
    layout = with_rows(tmp_path)
    before = ids(layout)
    old = [replace(version, text=None) for version in load_history(TablePlace(FS, layout, TABLE))]
    layout.schema_history(TABLE).write_bytes(encode_history(old))
    layout.schema(TABLE).unlink()
    deploy(FS, layout, schema().replace(b"<Column", b'<Partitions keyFormula="${autobalance_single}"/><Column', 1))
    assert ids(layout) == before


@pytest.mark.parametrize("form", [b"1", b"5"])
def test_a_history_of_another_form_is_refused(tmp_path: Path, form: bytes) -> None:
    data = encode_history([]).replace(b'"format": 4', b'"format": ' + form)
    with pytest.raises(UnsupportedVersionError, match="form that this release cannot read"):
        decode_history(data, tmp_path)


@pytest.mark.parametrize(
    "data", [b"{", b"[]", b'{"versions": 1}', b'{"versions": [{"version": "1", "sha256": "", "columns": []}]}', b"\xff"]
)
def test_a_damaged_history(tmp_path: Path, data: bytes) -> None:
    layout = Layout(tmp_path)
    deploy(FS, layout, schema())
    layout.schema_history(TABLE).write_bytes(data)
    with pytest.raises(CorruptFileError, match="schema history cannot be read") as caught:
        load_deployed(TablePlace(FS, layout, TABLE))
    assert caught.value.where == str(layout.schema_history(TABLE))


def with_rows(root: Path) -> Layout:
    """A table of two versions, of which a stream has left a log."""
    layout = Layout(root)
    deploy(FS, layout, schema({"Date": "String", "B": "String", "A": "int"}))
    deploy(FS, layout, schema())
    layout.streams(TABLE).mkdir(parents=True)
    (layout.streams(TABLE) / "s.log").touch()
    (layout.intraday(TABLE) / "EWR" / "2013-01-01" / "Tab").mkdir(parents=True)
    return layout


def test_a_lost_schema_file_is_reported_and_the_next_deployment_keeps_the_ids(tmp_path: Path) -> None:
    layout = with_rows(tmp_path)
    before = ids(layout)
    assert before == {"Date": 0, "B": 1, "A": 2, "C": 3}
    layout.schema(TABLE).unlink()
    with pytest.raises(CorruptFileError, match="is missing, although the table is here") as caught:
        load_deployed(TablePlace(FS, layout, TABLE))
    assert caught.value.where == str(layout.schema(TABLE))
    assert standing_tables(FS, layout) == [TABLE]
    deploy(FS, layout, schema())
    assert ids(layout) == before
    layout.schema(TABLE).unlink()
    deploy(FS, layout, schema({**COLUMNS, "D": "long"}))
    assert ids(layout) == {**before, "D": 4}
    layout.schema(TABLE).unlink()
    with pytest.raises(SchemaParseError, match="E161"):
        deploy(FS, layout, schema({**COLUMNS, "A": "short"}))


def widened(kind: str = "long") -> list[Version]:
    columns = [ColumnVersion(0, "A", name, "fixed", None, "NORMAL") for name in ("int", kind)]
    return [Version(number, "", (column,)) for number, column in enumerate(columns, 1)]


def test_a_widened_column_keeps_its_id(tmp_path: Path) -> None:
    data = encode_history(widened())
    assert decode_history(data, tmp_path) == widened()
    assert forms_of_ids(widened()) == {0: (Form(BY_NAME["int"], Storage.FIXED),)}
    assert forms_of_ids([*widened(), *widened()[1:]]) == forms_of_ids(widened())


@pytest.mark.parametrize("kind", ["short", "double", "String", "float", "Instant"])
def test_an_id_of_two_forms_of_which_none_is_wider_is_damage(tmp_path: Path, kind: str) -> None:
    data = encode_history(widened(kind))
    with pytest.raises(CorruptFileError, match="cannot be read") as caught:
        decode_history(data, tmp_path)
    assert "id 0 stands for" in str(caught.value.found)


def test_without_schema_and_history_nothing_is_deployed_over_rows(tmp_path: Path) -> None:
    layout = with_rows(tmp_path)
    layout.schema_history(TABLE).unlink()
    for call in (
        lambda: load_deployed(TablePlace(FS, layout, TABLE)),
        lambda: deploy(FS, layout, schema({"Date": "String"})),
    ):
        with pytest.raises(CorruptFileError, match=r"history of the schema of .* is missing"):
            call()
    layout.schema(TABLE).unlink()
    for call in (lambda: load_deployed(TablePlace(FS, layout, TABLE)), lambda: deploy(FS, layout, schema())):
        with pytest.raises(CorruptFileError, match="is missing, although the table is here"):
            call()
    assert standing_tables(FS, layout) == [TABLE]


@pytest.mark.slow
def test_no_bit_of_a_history_can_flip_into_other_columns(tmp_path: Path) -> None:
    layout = with_rows(tmp_path)
    path = layout.schema_history(TABLE)
    whole, sound, unseen = path.read_bytes(), load_deployed(TablePlace(FS, layout, TABLE)), []
    for at in range(len(whole)):
        bad = bytearray(whole)
        bad[at] ^= 1 << at % 7
        path.write_bytes(bad)
        try:
            found = load_deployed(TablePlace(FS, layout, TABLE))
        except SparkhavenError:
            continue
        if replace(found, retired=()) != replace(sound, retired=()):
            unseen.append((at, whole[at - 8 : at + 8]))
    assert not unseen


def test_a_history_is_read_and_written_as_it_was() -> None:
    data = (GOLDEN / "schema-history.json").read_bytes()
    history = decode_history(data, "x")
    assert [version.dropped for version in history] == [(), (3,), ()]
    assert [column.name for column in history[2].columns] == ["Date", "N", "A"]
    assert encode_history(history) == data

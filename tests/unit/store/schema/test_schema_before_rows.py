"""Schemas that change before the first row: names go to other columns, unless a stream may write the old ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from sparkhaven.store.errors import SchemaChangeError, SchemaParseError
from sparkhaven.store.layout import Layout
from sparkhaven.store.places import TablePlace
from sparkhaven.store.schema.deployed.deploy import deploy, load_deployed, require_writable, running_streams
from sparkhaven.store.schema.deployed.schema_changes import ACCEPTED, Consent
from sparkhaven.store.types.model import Storage
from tests.support.tables.deployed import COLUMNS, FS, TABLE, schema

RETYPED = {**COLUMNS, "A": "short"}
OTHERS = {
    "type": schema(RETYPED),
    "charset": schema(B=' encoding="US_ASCII"'),
    "partitioning": schema({"A": "int", "B": "String", "C": "double", "Date": "String"})
    .replace(b'name="Date" dataType="String" columnType="Partitioning"', b'name="Date" dataType="String"')
    .replace(b'name="B"', b'name="B" columnType="Partitioning"'),
}


@pytest.mark.parametrize("texts", [[OTHERS["type"]], [OTHERS["charset"]], [schema({"Date": "String"}), schema()]])
def test_a_name_that_goes_to_another_column_is_that_column_alone(tmp_path: Path, texts: list[bytes]) -> None:
    layout = Layout(tmp_path)
    first = deploy(FS, layout, schema())
    for text in texts:
        deploy(FS, layout, text)
    found = load_deployed(TablePlace(FS, layout, TABLE))
    assert {column.id for column in found.columns} != {column.id for column in first.columns}
    every = (*found.columns, *found.retired)
    assert len({column.name for column in every}) == len(every)
    for version in range(1, found.version + 1):
        assert len({column.stem(version) for column in every}) == len(every)


def opened(layout: Layout, stream: str = "s") -> Path:
    """What a stream that has started leaves, without a row."""
    layout.streams(TABLE).mkdir(parents=True)
    layout.stream_log(TABLE, stream).write_bytes(b"")
    path = layout.stream_lock(TABLE, stream)
    path.write_bytes(b"")
    return path


@pytest.mark.parametrize("other", OTHERS)
def test_a_running_stream_without_rows_keeps_its_columns_until_it_ends(tmp_path: Path, other: str) -> None:
    layout = Layout(tmp_path)
    before = deploy(FS, layout, schema())
    lock = FS.lock(opened(layout))
    assert lock is not None
    with lock:
        assert running_streams(TablePlace(FS, layout, TABLE)) == ["s"]
        with pytest.raises(SchemaParseError, match="E161") as caught:
            deploy(FS, layout, OTHERS[other], consent=ACCEPTED)
        assert caught.value.hint == "the table has no rows yet. First end its running streams (s)"
        assert load_deployed(TablePlace(FS, layout, TABLE)) == before
        require_writable(FS, layout, before)
    assert running_streams(TablePlace(FS, layout, TABLE)) == []
    deploy(FS, layout, OTHERS[other], consent=ACCEPTED)
    with pytest.raises(SchemaChangeError, match="deployed meanwhile") as changed:
        require_writable(FS, layout, before)
    assert changed.value.found in ("A", "B", "Date, B")


def test_a_wider_column_before_the_first_row_is_a_new_one_unless_a_stream_may_write_the_old(tmp_path: Path) -> None:
    wider = schema({**COLUMNS, "A": "long"}, B=' symbolTable="None"')
    free, open_ = Layout(tmp_path / "free"), Layout(tmp_path / "open")
    for layout in (free, open_):
        before = deploy(FS, layout, schema())
    assert [column.forms for column in deploy(FS, free, wider).columns] == [(), (), (), ()]
    lock = FS.lock(opened(open_))
    assert lock is not None
    with lock:
        after = deploy(FS, open_, wider, consent=ACCEPTED)
        require_writable(FS, open_, before)
    assert [column.id for column in after.columns] == [column.id for column in before.columns]
    assert [[form.storage for form in column.forms] for column in after.columns] == [
        [], [Storage.FIXED], [Storage.SYMBOL], []
    ]  # fmt: skip


def test_a_stream_may_write_beside_additions_drops_and_renames(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    before = deploy(FS, layout, schema())
    opened(layout)
    deploy(FS, layout, schema({**COLUMNS, "D": "long"}))
    deploy(FS, layout, schema({"Date": "String", "N": "int", "D": "long"}), consent=Consent(("B", "C"), (("A", "N"),)))
    require_writable(FS, layout, before)

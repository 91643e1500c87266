"""Deployed schemas: ids, versions, conflicts with data, and stops between the steps."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path

import pytest

from sparkhaven.store.errors import (
    LockLostError,
    SchemaChangeError,
    SchemaMismatchError,
    SchemaParseError,
    TableNotFoundError,
    UnsupportedVersionError,
)
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.places import TablePlace
from sparkhaven.store.schema.deployed.deploy import deploy, deployed_tables, load_deployed, load_history
from sparkhaven.store.schema.deployed.history import ColumnVersion, Version, encode_history
from sparkhaven.store.schema.deployed.schema_changes import ACCEPTED, Consent
from sparkhaven.store.schema.document.schema_file import parse_schema
from sparkhaven.store.types.model import TableSchema
from tests.support.tables.deployed import COLUMNS, FS, TABLE, ids, schema, with_data


def test_first_deploy(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "db")
    source = tmp_path / "Ns.Tab.schema"
    source.write_bytes(schema())
    found = deploy(FS, layout, source)
    assert found.version == 1
    assert ids(layout) == {"Date": 0, "A": 1, "B": 2, "C": 3}
    assert layout.schema(TABLE).read_bytes() == schema()
    assert load_deployed(TablePlace(FS, layout, TABLE)) == found
    assert deployed_tables(FS, layout) == [TABLE]
    history = json.loads(layout.schema_history(TABLE).read_bytes())
    assert history["versions"][0]["columns"][:3] == [
        [0, "Date", "String", "none", "UTF_8", "PARTITIONING"],
        [1, "A", "int", "fixed", None, "NORMAL"],
        [2, "B", "String", "symbol", "UTF_8", "NORMAL"],
    ]


def test_the_same_bytes_write_nothing(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    deploy(FS, layout, schema())
    before = layout.schema(TABLE).stat().st_ino, layout.schema_history(TABLE).stat().st_ino
    assert deploy(FS, layout, schema()).version == 1
    assert before == (layout.schema(TABLE).stat().st_ino, layout.schema_history(TABLE).stat().st_ino)


def test_new_columns_get_new_ids_and_old_ones_keep_theirs(tmp_path: Path) -> None:
    layout = with_data(tmp_path)
    deploy(FS, layout, schema())
    reordered = schema({"Date": "String", "D": "long", "C": "double", "B": "String", "A": "Integer"})
    with pytest.raises(SchemaChangeError, match="drops or changes columns") as caught:
        deploy(FS, layout, reordered)
    assert caught.value.found == "changes the order of columns"
    found = deploy(FS, layout, reordered, consent=ACCEPTED)
    assert found.version == 2
    assert ids(layout) == {"Date": 0, "D": 4, "C": 3, "B": 2, "A": 1}
    assert [column.name for column in load_history(TablePlace(FS, layout, TABLE))[0].columns] == list(COLUMNS)


def test_ids_are_never_used_again(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    deploy(FS, layout, schema())
    deploy(FS, layout, schema({"Date": "String", "A": "int", "B": "String"}))
    deploy(FS, layout, schema({**COLUMNS, "A": "long"}))
    assert ids(layout) == {"Date": 0, "A": 4, "B": 2, "C": 5}


@pytest.mark.parametrize(
    ("change", "attributes", "expected", "found"),
    [
        ({"A": "short"}, {}, "A: int, stored as fixed", "A: short, stored as fixed"),
        ({"A": "double"}, {}, "A: int, stored as fixed", "A: double, stored as fixed"),
        (
            {},
            {"B": ' symbolTable="None" encoding="US_ASCII"'},
            "B: String, stored as symbol in UTF_8",
            "B: String, stored as blob in US_ASCII",
        ),
        ({}, {"B": ' encoding="US_ASCII"'}, "B: String, stored as symbol in UTF_8", "stored as symbol in US_ASCII"),
        ({"C": "String"}, {}, "C: double, stored as fixed", "C: String, stored as symbol in UTF_8"),
    ],
)
def test_a_change_of_storage_is_refused_while_data_exist(
    tmp_path: Path, change: dict[str, str], attributes: dict[str, str], expected: str, found: str
) -> None:
    layout = with_data(tmp_path)
    deploy(FS, layout, schema())
    source = tmp_path / "Ns.Tab.schema"
    source.write_bytes(schema({**COLUMNS, **change}, **attributes))
    with pytest.raises(SchemaParseError, match="E161: the schema changes how existing") as caught:
        deploy(FS, layout, source)
    assert (caught.value.code, caught.value.expected) == ("E161", expected)
    assert found in str(caught.value.found)
    line = 2 + list(COLUMNS).index(expected[0])
    assert caught.value.where == f"{source}:{line}:3"
    assert load_deployed(TablePlace(FS, layout, TABLE)).version == 1


def test_without_data_everything_may_change(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    layout.streams(TABLE).mkdir(parents=True)
    (layout.intraday(TABLE) / "EWR").mkdir()
    deploy(FS, layout, schema())
    assert deploy(FS, layout, schema({**COLUMNS, "A": "long"})).version == 2


@pytest.mark.parametrize("place", ["merges", "metadata_index"])
def test_history_counts_as_data(tmp_path: Path, place: str) -> None:
    layout = Layout(tmp_path)
    deploy(FS, layout, schema())
    path: Path = getattr(layout, place)(TABLE)
    path.parent.mkdir(parents=True)
    if place == "merges":
        (path / "2013-01-01").mkdir(parents=True)
    else:
        path.write_bytes(b"x")
    with pytest.raises(SchemaParseError, match="E161"):
        deploy(FS, layout, schema({**COLUMNS, "A": "short"}))


def test_the_partitioning_column_stays(tmp_path: Path) -> None:
    layout = with_data(tmp_path)
    deploy(FS, layout, schema())
    other = schema().replace(b' columnType="Partitioning"', b"").replace(b'"B" d', b'"B" columnType="Partitioning" d')
    with pytest.raises(SchemaParseError, match="E161") as caught:
        deploy(FS, layout, other)
    assert (caught.value.expected, caught.value.found) == ("Date PARTITIONING", "NORMAL")
    renamed = schema().replace(b'name="Date"', b'name="Day"')
    with pytest.raises(SchemaParseError, match="E161") as caught:
        deploy(FS, layout, renamed)
    assert caught.value.expected == "Date as Partitioning column"


def stems(schema: TableSchema, version: int) -> dict[int, str]:
    """The names of files of a location that a version began, by the id of the column."""
    return {column.id: column.stem(version) for column in (*schema.columns, *schema.retired)}


def test_a_retired_name_is_another_column_in_another_form(tmp_path: Path) -> None:
    layout = with_data(tmp_path)
    deploy(FS, layout, schema())
    deploy(FS, layout, schema({k: v for k, v in COLUMNS.items() if k != "C"}), consent=ACCEPTED)
    found = deploy(FS, layout, schema({**COLUMNS, "C": "int"}))
    assert ids(layout) == {"Date": 0, "A": 1, "B": 2, "C": 4}
    assert stems(found, 1) == stems(found, 2) == {0: "Date", 1: "A", 2: "B", 3: "C", 4: "C-4"}
    assert stems(found, 3) == {0: "Date", 1: "A", 2: "B", 4: "C", 3: "C-3"}
    assert [column.name for column in found.retired] == ["C-3"]
    deploy(FS, layout, schema({k: v for k, v in COLUMNS.items() if k != "C"}), consent=ACCEPTED)
    again = deploy(FS, layout, schema(), consent=Consent(restore=1))
    assert ids(layout) == {"Date": 0, "A": 1, "B": 2, "C": 3}
    assert [stems(again, version) for version in (1, 2, 3)] == [stems(found, version) for version in (1, 2, 3)]
    assert (stems(again, 4), stems(again, 5)) == (stems(again, 1), stems(again, 1))


def test_roles_formula_and_rules_may_change_at_any_time(tmp_path: Path) -> None:
    layout = with_data(tmp_path)
    deploy(FS, layout, schema())
    extra = b'<Partitions keyFormula="${autobalance_single}"/><DataIndex columns="A"/></Table>'
    changed = schema(B=' columnType="Grouping"').replace(b"</Table>", extra)
    with pytest.raises(SchemaChangeError, match="drops or changes columns") as caught:
        deploy(FS, layout, changed)
    assert caught.value.found == "changes B from normal to grouping, keyFormula"
    assert deploy(FS, layout, changed, consent=ACCEPTED).version == 2
    assert ids(layout) == {"Date": 0, "A": 1, "B": 2, "C": 3}


def test_a_name_goes_back_to_its_column_and_to_no_other(tmp_path: Path) -> None:
    layout = with_data(tmp_path)
    deploy(FS, layout, schema())
    renamed = {"Date": "String", "A": "int", "N": "String", "C": "double"}
    found = deploy(FS, layout, schema(renamed), consent=Consent(rename=(("B", "N"),)))
    assert found.column("N") is not None and found.names_at(1) == {"B": "N"}
    with pytest.raises(SchemaChangeError) as refused:
        deploy(FS, layout, schema())
    assert refused.value.found == "version 1, an older one, which drops N"
    assert "--rename N=B`" in str(refused.value.hint)
    back = deploy(FS, layout, schema(), consent=Consent(restore=1))
    assert (back.names_at(1), back.names_at(2)) == ({}, {"N": "B"})
    assert ids(layout) == {"Date": 0, "A": 1, "B": 2, "C": 3}


@pytest.mark.parametrize("kind", ["String", "int"])
def test_the_name_of_a_renamed_column_may_be_that_of_a_new_one(tmp_path: Path, kind: str) -> None:
    layout = with_data(tmp_path)
    deploy(FS, layout, schema())
    columns = {"Date": "String", "A": "int", "N": "String", "C": "double", "B": kind}
    found = deploy(FS, layout, schema(columns), consent=Consent(rename=(("B", "N"),)))
    assert ids(layout) == {"Date": 0, "A": 1, "N": 2, "C": 3, "B": 4}
    assert (found.names_at(1), found.names_at(2)) == ({"B": "N", "B-4": "B"}, {})


def test_names_are_swapped_and_come_back(tmp_path: Path) -> None:
    layout = with_data(tmp_path)
    deploy(FS, layout, schema())
    swapped = {"Date": "String", "C": "int", "B": "String", "A": "double"}
    found = deploy(FS, layout, schema(swapped), consent=Consent(rename=(("A", "C"), ("C", "A"))))
    assert ids(layout) == {"Date": 0, "C": 1, "B": 2, "A": 3}
    assert (found.names_at(1), found.names_at(2)) == ({"A": "C", "C": "A"}, {})
    back = deploy(FS, layout, schema(), consent=Consent(restore=1))
    assert ids(layout) == {"Date": 0, "A": 1, "B": 2, "C": 3}
    assert (back.names_at(1), back.names_at(2), back.names_at(3)) == ({}, {"A": "C", "C": "A"}, {})


def test_a_chain_of_names_moves_each_column_on(tmp_path: Path) -> None:
    layout = with_data(tmp_path)
    deploy(FS, layout, schema())
    chained = {"Date": "String", "B": "int", "N": "String", "A": "double", "C": "Instant"}
    consent = Consent(rename=(("A", "B"), ("B", "N"), ("C", "A")))
    found = deploy(FS, layout, schema(chained), consent=consent)
    assert ids(layout) == {"Date": 0, "B": 1, "N": 2, "A": 3, "C": 4}
    assert found.names_at(1) == {"A": "B", "B": "N", "C": "A", "C-4": "C"}


def test_a_codec_is_a_part_of_how_values_are_stored(tmp_path: Path) -> None:
    layout = with_data(tmp_path)
    columns = {**COLUMNS, "P": "java.math.BigDecimal"}
    codec = ' objectCodec="BigDecimalCodec" objectCodecArguments="{}"'
    deploy(FS, layout, schema(columns, P=codec.format("18,6")))
    with pytest.raises(SchemaParseError, match="E161"):
        deploy(FS, layout, schema(columns, P=codec.format("18,4")), consent=ACCEPTED)


def test_a_comment_is_no_change_of_a_start_and_is_deployed_by_command(tmp_path: Path) -> None:
    layout = with_data(tmp_path)
    deploy(FS, layout, schema())
    commented = schema() + b"<!-- mine -->"
    assert deploy(FS, layout, commented).version == 1
    assert deploy(FS, layout, commented, consent=Consent(changes=True)).version == 2
    assert layout.schema(TABLE).read_bytes() == commented


def test_rules_and_indexes_may_be_added_by_a_start_and_not_removed(tmp_path: Path) -> None:
    layout = with_data(tmp_path)
    deploy(FS, layout, schema())
    more = schema().replace(
        b"</Table>", b'<DataIndex columns="A"/><Validator><assertSize min="1" max="2"/></Validator></Table>'
    )
    assert deploy(FS, layout, more).version == 2
    with pytest.raises(SchemaChangeError) as caught:
        deploy(FS, layout, schema())
    assert "Validator, which lacks rules" in str(caught.value.found) and "DataIndex" in str(caught.value.found)


def test_going_back_to_earlier_bytes_is_a_new_version(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    grouped = schema(B=' columnType="Grouping"')
    assert [deploy(FS, layout, s).version for s in (schema(), grouped, schema())] == [1, 2, 3]
    assert load_deployed(TablePlace(FS, layout, TABLE)).version == 3


def test_a_file_changed_by_hand_is_refused(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    deploy(FS, layout, schema())
    layout.schema(TABLE).write_bytes(schema() + b"<!-- mine -->")
    for call in (lambda: load_deployed(TablePlace(FS, layout, TABLE)), lambda: deploy(FS, layout, schema())):
        with pytest.raises(SchemaMismatchError, match="is not the one that was deployed"):
            call()


def test_no_deployed_schema(tmp_path: Path) -> None:
    with pytest.raises(TableNotFoundError, match=r"table Ns\.Tab has no deployed schema"):
        load_deployed(TablePlace(FS, Layout(tmp_path), TABLE))
    assert deployed_tables(FS, Layout(tmp_path)) == []


def test_a_splayed_table_is_refused(tmp_path: Path) -> None:
    text = b'<Table namespace="Ns" name="Tab" storageType="SplayedOnDisk"><Column name="A" dataType="int"/></Table>'
    with pytest.raises(UnsupportedVersionError, match="not a nested partitioned table"):
        deploy(FS, Layout(tmp_path), text)


def test_the_lock_of_another_process(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    layout.schemas().mkdir()
    lock = FS.lock(layout.schemas())
    assert lock is not None
    waits: list[float] = []
    with pytest.raises(LockLostError, match="another process holds the schema lock"):
        deploy(FS, layout, schema(), pause=waits.append)
    assert len(waits) == 250
    waits.clear()

    def pause(seconds: float) -> None:
        waits.append(seconds)
        lock.release()

    assert deploy(FS, layout, schema(), pause=pause).version == 1
    assert len(waits) == 1


def test_a_copy_is_deployed_as_a_table_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "Ns.Tab.schema").write_bytes(schema())
    copy = '<CopyTable namespace="Ns" name="Two" sourceNamespace="Ns" sourceName="Tab"/>'
    (tmp_path / "Ns.Two.schema").write_text(copy)
    layout = Layout(tmp_path / "db")
    deploy(FS, layout, tmp_path / "Ns.Two.schema")
    assert load_deployed(TablePlace(FS, layout, TableName("Ns", "Two"))).full_name == "Ns.Two"
    assert layout.schema(TableName("Ns", "Two")).read_bytes() == schema().replace(b'name="Tab"', b'name="Two"')


def test_names_that_differ_in_case_only_are_refused_and_stay_readable_where_they_are(tmp_path: Path) -> None:
    layout = with_data(tmp_path)
    twins = schema({"Date": "String", "A": "int", "a": "String"})
    with pytest.raises(SchemaParseError, match="E112") as caught:
        deploy(FS, layout, twins)
    assert caught.value.found == "a beside A (line 3)"
    as_deployed_by_an_earlier_release(layout, twins)
    found = load_deployed(TablePlace(FS, layout, TABLE))
    assert [c.name for c in found.columns] == ["Date", "A", "a"] and found.case_twins == ("A", "a")
    with pytest.raises(SchemaParseError, match="E112"):
        deploy(FS, layout, twins)
    renamed = schema({"Date": "String", "A": "int", "Small": "String"})
    assert deploy(FS, layout, renamed, consent=Consent(rename=(("a", "Small"),))).case_twins is None
    assert ids(layout) == {"Date": 0, "A": 1, "Small": 2}


def as_deployed_by_an_earlier_release(layout: Layout, text: bytes) -> None:
    columns = parse_schema(text, "", deployed=True).schema.columns
    records = tuple(ColumnVersion.of(column, number) for number, column in enumerate(columns))
    layout.schemas().mkdir(parents=True)
    layout.schema(TABLE).write_bytes(text)
    history = [Version(1, sha256(text).hexdigest(), records)]
    layout.schema_history(TABLE).write_bytes(encode_history(history))

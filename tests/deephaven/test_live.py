"""A real Deephaven engine over our trees, read by a client in another process; one engine for all tests."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sparkhaven.store.layout import Layout, TableName
from sparkhaven.writers.partitions import add_partition
from sparkhaven.writers.removal.removal_proof import States, prove
from sparkhaven.writers.removal.row_removal import delete, truncate
from tests.deephaven.soak import MERGES, VARIABLE, Soak, sample
from tests.support.schemas.altered_table import AlteredTable
from tests.support.schemas.changes import FIRST, Change, D, Step, instead, without
from tests.support.schemas.doors import as_rows, same_rows
from tests.support.schemas.moments import begun
from tests.support.served import PATIENCE, PROGRAM, ClientError, Served, require_engine, serving
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.merge_cases import ARROW, DAY, SCHEMA, as_table, comparable, random_row
from tests.support.writers.merge_runs import FS, make, merge

NOW = 1_700_000_000.0
FILES, A, B = 100, 2, 3  # of each file, rows of two sources
STREAM = """
name = "ticks"
table = "Live.Tick"
schema = "tick.schema"
[feed]
type = "files"
path = "feed/*.json"
format = "json"
max_per_trigger = { files = 1 }
[columns]
At = { from = "at", unit = "iso" }
[partition]
internal = { column = "Sym" }
value = { column = "At", zone = "UTC" }
clock = "2024-04-02T23:59:59Z"
"""
TICKS = """<Table namespace="Live" name="Tick" storageType="NestedPartitionedOnDisk">
  <Partitions keyFormula="${autobalance_single}"/>
  <Column name="Date" dataType="String" columnType="Partitioning"/>
  <Column name="Sym" dataType="String"/><Column name="File" dataType="int"/><Column name="At" dataType="Instant"/>
  <Column name="Text" dataType="String" symbolTable="None"/></Table>"""
SMALL = TICKS.replace('"Live" name="Tick"', '"Live" name="NAME"').replace('<Column name="At" dataType="Instant"/>', "")

pytestmark = pytest.mark.deephaven


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A root with one table and many small locations, served as a whole."""
    require_engine()  # before a thousand files are written
    base = tmp_path_factory.mktemp("served")
    many = IntradayRows(base / "db", SMALL.replace("NAME", "Many").encode(), fs=FS)
    for date in range(1, 29):
        many.commit({(f"s{n:02}", f"2024-02-{date:02}"): small(1, n) for n in range(20)})
    with serving(base / "db", base) as found:
        yield found


def small(rows: int, file: int) -> pa.Table:
    texts = {"Sym": [f"s{file}"] * rows, "Text": [f"t{file}"] * rows}
    return pa.table({**texts, "File": pa.array([file] * rows, pa.int32())})


def multiset(table: pa.Table) -> list[tuple[Any, ...]]:
    """Rows in an order of their own, without the date."""
    columns = [table[name].cast(pa.int64()) if name == "T" else table[name] for name in ARROW]
    values = [[comparable(value) for value in column.to_pylist()] for column in columns]
    return sorted(zip(*values, strict=True), key=repr)


def expected(rows: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return sorted((tuple(comparable(value) for value in row.values()) for row in rows), key=repr)


def test_a_day_with_every_type_merged_truncated_and_deleted_while_it_is_attached(served: Served) -> None:
    house, rows = make(served.root, 300)
    served.attach("day", "Test_Every")
    found = served.wait("day", 300)
    assert multiset(found) == expected(rows)
    assert set(found["Date"].to_pylist()) == {DAY}
    assert {name: found.schema.field(name).type for name in ARROW} == ARROW

    late = [random_row(random.Random(n)) for n in range(7)]
    house.commit({("a", DAY): as_table(late[:4]), ("new", DAY): as_table(late[4:])})
    assert multiset(served.wait("day", 307)) == expected(rows + late)

    merge(house.layout)
    next_day = [random_row(random.Random(n)) for n in range(10, 15)]
    house.commit({("a", "2024-03-06"): as_table(next_day)})
    assert multiset(served.wait("day", 312)) == expected(rows + late + next_day)
    found = served.rows("day", where=["Date = `2024-03-06`"])
    assert multiset(found) == expected(next_day)

    truncate(States(house.place), proof=prove(house.place, DAY), clock=lambda: NOW)
    house.commit({("a", "2024-03-06"): as_table(late)})
    served.wait("day", 319)  # the truncate has been seen too
    delete(States(house.place), proof=prove(house.place, DAY), clock=lambda: NOW + 4000)
    assert multiset(served.rows("day")) == expected(rows + late + next_day + late)
    served.attach("again", "Test_Every")
    assert multiset(served.rows("again")) == expected(rows + late + next_day + late)


def test_many_locations_and_conditions_on_date_and_column(served: Served) -> None:
    served.attach("many", "Live_Many")
    found = served.rows("many")
    wanted = Counter((f"2024-02-{date:02}", f"s{n}") for date in range(1, 29) for n in range(20))
    assert Counter(zip(found["Date"].to_pylist(), found["Sym"].to_pylist(), strict=True)) == wanted
    found = served.rows("many", where=["Date in `2024-02-20`, `2024-02-03`", "File = 7"])  # neither needs a compiler
    assert sorted(found["Date"].to_pylist()) == ["2024-02-03", "2024-02-20"]
    last = served.ask("last_by", name="many", by="Sym", columns=["Sym", "Text"])
    assert sorted((row["Sym"], row["Text"]) for row in last) == sorted((f"s{n}", f"t{n}") for n in range(20))


def test_whole_epochs_while_a_stream_is_ingested_killed_and_started_again(served: Served, tmp_path: Path) -> None:
    (tmp_path / "feed").mkdir()
    (tmp_path / "tick.schema").write_text(TICKS, encoding="utf-8")
    (tmp_path / "ticks.toml").write_text(STREAM, encoding="utf-8")
    for file in range(FILES):
        rows = [
            {"Sym": sym, "File": file, "at": f"2024-04-0{1 + file // 50}T10:00:00Z", "Text": f"{sym}{file}"}
            for sym, number in (("a", A), ("b", B))
            for _ in range(number)
        ]
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / "feed" / f"{file:03}.json").write_text(text, encoding="utf-8")
    command = [str(PROGRAM), "--root", str(served.root), "ingest", str(tmp_path / "ticks.toml"), "--once", "--local"]
    errors = tmp_path / "ingest.log"
    seen: list[int] = []

    def look() -> None:
        files = Counter(served.ask("snapshot", name="ticks", column="File"))
        assert set(files.values()) <= {A + B}, f"a part of an epoch is shown: {files}"
        seen.append(len(files))

    def start() -> subprocess.Popen[bytes]:
        with errors.open("a", encoding="utf-8") as log:
            return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=log)

    writer = start()
    while not (served.root / "Schemas" / "Live.Tick.schema").exists():
        assert writer.poll() is None, errors.read_text(encoding="utf-8")
    served.attach("ticks", "Live_Tick")
    while not seen or seen[-1] < 3:
        assert writer.poll() is None, errors.read_text(encoding="utf-8")
        look()
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    look()
    assert seen[-1] < FILES
    writer = start()
    while writer.poll() is None:
        look()
    assert writer.returncode == 0, errors.read_text(encoding="utf-8")
    found = served.wait("ticks", FILES * (A + B))
    assert seen == sorted(seen)
    wanted = Counter(
        (f"2024-04-0{1 + file // 50}", sym, file, f"{sym}{file}")
        for file in range(FILES)
        for sym, number in (("a", A), ("b", B))
        for _ in range(number)
    )
    columns = [found[name].to_pylist() for name in ("Date", "Sym", "File", "Text")]
    assert Counter(zip(*columns, strict=True)) == wanted


def test_a_rollback_ends_what_is_attached_and_the_name_has_the_right_rows(served: Served) -> None:
    house = IntradayRows(served.root, SMALL.replace("NAME", "Back").encode(), fs=FS)
    house.commit({("a", DAY): small(2, 1)})
    house.commit({("a", DAY): small(3, 2)})
    served.attach("before", "Live_Back")
    assert served.wait("before", 5)["Sym"].to_pylist() == ["s1"] * 2 + ["s2"] * 3
    house.log.rollback(1)
    house.symbols[next(iter(house.log.state.locations)), "Sym"] = {"s1": 0}
    house.commit({("a", DAY): small(4, 9)})
    found = served.wait_anew("after", "Live_Back", 6)
    assert found["Sym"].to_pylist() == ["s1"] * 2 + ["s9"] * 4
    assert "Live.Back: the served table has ended" in served.notes
    with pytest.raises(ClientError):
        served.rows("before", columns=["Sym"])  # whatever is derived from it; a plain snapshot still has its last rows


def test_history_that_is_parquet_only(served: Served) -> None:
    """Every type with nulls, beside rows that came to intraday after the merge, and merged again while attached."""
    name = TableName("Packed", "Every")
    db = IntradayRows(served.root, SCHEMA.replace(b'namespace="Test"', b'namespace="Packed"'), fs=FS)
    add_partition(FS, db.layout, "Packed", "0")
    rows = [random_row(random.Random(n)) for n in range(400)]
    db.commit({("a", DAY): as_table(rows[:150]), ("b", DAY): as_table(rows[150:300])})
    merge(db.layout, table=name, format="parquet")
    history = db.layout.partitions("Packed")
    assert list(history.rglob("table.parquet")) and not list(history.rglob("L.dat"))
    db.commit({("a", DAY): as_table(rows[300:])})
    served.attach("packed", "Packed_Every")
    found = served.wait("packed", 400)
    assert multiset(found) == expected(rows)
    assert {name: found.schema.field(name).type for name in ARROW} == ARROW
    some = served.rows("packed", where=["I > 0"])
    assert multiset(some) == expected([row for row in rows if row["I"] is not None and row["I"] > 0])
    merge(db.layout, table=name, format="parquet")
    assert multiset(served.rows("packed")) == expected(rows)
    served.attach("anew", "Packed_Every")
    assert multiset(served.rows("anew")) == expected(rows)


def test_columns_are_added_renamed_dropped_and_moved_while_a_table_is_attached(served: Served, tmp_path: Path) -> None:
    more, renamed = {**FIRST, "D": D}, {**instead("B", "N"), "D": D}
    moved = Step(dict(reversed(without("A", of=renamed).items())), ("--drop", "A"), "drops A")
    live = (Step(more), Step(renamed, ("--rename", "B=N"), "drops B"), moved)
    table = AlteredTable(tmp_path, Change(FIRST, live))
    table.root = served.root
    begun(table)
    served.attach("then", "Test_Event")
    attached, name = table.shown, "then"
    for number, step in enumerate(live):
        table.give(step.columns)
        table.deploy(step)
        table.write(table.shown)
        table.write(table.shown, f"new{number}")  # a location with files of the new columns only
        found = anew(served, f"now {number}", table)
        then = served.wait(name, len(table.rows))
        for _ in range(2):
            assert set(then.column_names) == {*attached}, "an attached table has the columns of its start"
            same_rows(as_rows(found, table.shown), table.expected(table.shown), f"engine after {step.words}")
            same_rows(as_rows(then, attached), table.expected(attached), f"engine of before, after {step.words}")
            found, then = served.rows(f"now {number}"), served.rows(name)
        attached, name = table.shown, f"now {number}"


def anew(served: Served, name: str, table: AlteredTable) -> pa.Table:
    """The rows of now, once the engine offers the table with the columns of now."""
    last = time.monotonic() + PATIENCE
    while True:
        found = served.wait_anew(name, "Test_Event", len(table.rows))
        if set(found.column_names) == {*table.shown}:
            return found
        assert time.monotonic() < last, served.notes


def test_quick_rounds_of_the_soak_count_every_row(served: Served) -> None:
    soak = Soak(served.root)
    served.attach("rows", VARIABLE)
    for _ in range(MERGES):
        soak.round(served)
    assert (soak.rollbacks, soak.date) == (1, 1)
    assert sample(served.server.pid, 0.0).anonymous > 0


def test_there_is_no_web_page_and_calls_need_the_key(served: Served) -> None:
    for path in ("/", "/ide/", "/iframe/table/?name=Live_Many", "/jsapi/dh-core.js"):
        status, text = served.get(path)
        assert status in (403, 404, 405), path
        assert "<script" not in text
    assert "page" not in served.started
    refused = "UNAUTHENTICATED"
    assert [served.ask("call", key=given) for given in (None, "wrong", served.started["key"])] == [
        refused,
        refused,
        "OK",
    ]


def test_a_wrong_key_and_code_are_refused(served: Served) -> None:
    with pytest.raises(ClientError):
        served.ask("login", key=served.started["key"][::-1])
    with pytest.raises(ClientError):
        served.ask("script")
    assert served.ask("login", key=served.started["key"])


def test_its_line_names_the_tables(served: Served) -> None:
    assert served.started["tables"] == {"Live.Many": "Live_Many"}
    assert served.started["url"].startswith("http://127.0.0.1:")
    assert Layout(served.root).schema(TableName("Live", "Many")).exists()

"""The order log, from two Kafka topics to an engine: at every step the rows that this test has made in plain Python.

The files are those of ``examples/orders``. One date is merged into column files, one into Parquet, one is intraday.
"""

from __future__ import annotations

import base64
import io
import json
import random
import shutil
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

import sparkhaven
from sparkhaven.store.io.fs import Fs
from tests.contracts.codings.coded_readers import engines_number
from tests.support.commands import run, run_json
from tests.support.kafka.topics import make_topic, send
from tests.support.places import REPOSITORY
from tests.support.served import require_engine, serving
from tests.support.servers.broker import Broker
from tests.support.spark.one_session import one_session

pytestmark = [pytest.mark.deephaven, pytest.mark.jvm, pytest.mark.kafka, pytest.mark.spark]

Row = dict[str, Any]
EXAMPLE = REPOSITORY / "examples" / "orders"
TABLE = "Trading.OrderLog"
DATES = ("2026-11-18", "2026-11-19", "2026-11-20")
OPENING = int(datetime(2026, 11, 18, 14, 30, tzinfo=UTC).timestamp()) * 10**9
DAY_NS, HOUR_NS = 86_400 * 10**9, 3600 * 10**9
SIX_DIGITS = Decimal("0.000001")
FAR = Decimal("1.12345678")  # more digits than the column has


def made(rng: random.Random, number: int) -> Row:
    """One order. Times are nanoseconds, since 1970 or of the day; every column but three is null now and then."""
    day = number % len(DATES)
    row: Row = {
        "Book": rng.choice(["", "Delta One", "\U0001f600", "Rates", "\uffee"]),
        "Version": rng.randrange(-(2**31) + 1, 2**31),
        "Price": Decimal(rng.randrange(-(10**18) + 1, 10**18)).scaleb(-6),
        "FillPx": [rng.choice([None, 0.1, -0.0, 1e300, float(number)]) for _ in range(rng.randrange(5))],
        "Open": rng.random() < 0.5,
        "Settle": date(2026, 1, 1) + timedelta(days=rng.randrange(700)),
        "Expires": rng.randrange(86_400 * 10**6) * 1000,
        "Tags": sorted(rng.sample(["algo", "block", "iceberg"], rng.randrange(4))),
        "Signature": rng.randbytes(rng.randrange(1, 40)),
        "Note": rng.choice(["", "é\x00", "x" * 5000, "\U0001f600"]),
    }
    row = {name: None if rng.random() < 0.15 else value for name, value in row.items()}
    at = OPENING + day * DAY_NS + rng.randrange(6 * HOUR_NS)
    return row | {"OrderId": f"O-{number % 150:05}", "At": at, "Date": DATES[day]}


def stored(row: Row) -> Row:
    """What a reader shows: no set is null."""
    return row | {"Tags": row["Tags"] or []}


def as_avro(row: Row, schema: Any) -> bytes:
    """The record of a row."""
    expires = None if row["Expires"] is None else row["Expires"] // 1000
    record = io.BytesIO()
    fastavro.schemaless_writer(record, schema, {**row, "Expires": expires})
    return record.getvalue()


def as_json(row: Row) -> bytes:
    """The object of a row, whose null fields are missing or null."""
    fields = {name: value for name, value in row.items() if value is not None or len(row["OrderId"]) % 2}
    seconds, ns = divmod(row["At"], 10**9)
    fields["At"] = f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{ns:09}Z"
    for name, text in (("Settle", str), ("Price", str), ("Signature", _base64), ("Expires", _time_of_day)):
        if row[name] is not None:
            fields[name] = text(row[name])
    del fields["Date"]
    return json.dumps(fields).encode()


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _time_of_day(ns: int) -> str:
    seconds, below = divmod(ns, 10**9)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{below:09}"


def shown(table: pa.Table) -> list[Row]:
    """The rows of a reader, in its order, times as nanoseconds."""
    columns = {}
    for name in table.column_names:
        column = table[name].combine_chunks()
        if pa.types.is_time(column.type) or pa.types.is_timestamp(column.type):
            column = column.view(pa.int64())
        columns[name] = column.to_pylist()
    if pa.types.is_binary(table.schema.field("Price").type):  # of an engine, which sends no zeros at the end
        numbers = [None if data is None else Decimal(engines_number(data, 4)) for data in columns["Price"]]
        columns["Price"] = [None if number is None else number.quantize(SIX_DIGITS) for number in numbers]
    return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]


def same(found: pa.Table, rows: list[Row]) -> None:
    """The reader's rows are these, each once, in any order; the first value that differs is named."""
    by_time = sorted(shown(found), key=lambda row: row["At"])
    wanted = sorted(map(stored, rows), key=lambda row: row["At"])
    assert len(by_time) == len(wanted)
    for one, other in zip(by_time, wanted, strict=True):
        assert set(one) == set(other)
        for name, value in other.items():
            assert repr(one[name]) == repr(value), (name, other["OrderId"])


def merged_order(row: Row) -> tuple[Any, ...]:
    """Groups ascending with null first, texts by UTF-16 unit; then Settle from the latest on, null last; then At."""
    book, settle = row["Book"], row["Settle"]
    group = (book is not None, (book or "").encode("utf-16-be"))
    return (*group, -(settle.toordinal() if settle else 0), row["At"])


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    rng = random.Random(20)
    found = [made(rng, number) for number in range(600)]
    assert len({row["At"] for row in found}) == len(found)
    assert all(any(row[name] is None for row in found) for name in set(found[0]) - {"OrderId", "At", "Date"})
    return found


@pytest.fixture(scope="module", autouse=True)
def session() -> Iterator[None]:
    require_engine()
    with one_session() as spark:
        sparkhaven.register(spark)
        yield


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the files of the example."""
    return Path(shutil.copytree(EXAMPLE, tmp_path_factory.mktemp("orders") / "site"))


def feed(site: Path, rows: list[Row]) -> None:
    """Half of the rows by each topic, with a bad one in their midst."""
    schema = fastavro.parse_schema(json.loads((site / "order.avsc").read_text()))
    half, bad = len(rows) // 2, rows[0]
    avro = [as_avro(row, schema) for row in (*rows[:7], bad | {"Price": FAR}, *rows[7:half])]
    texts = [as_json(row) for row in rows[half:]]
    texts.insert(9, as_json(bad | {"Settle": "2026-02-30"}))
    with Broker(Fs(), site / "broker") as broker, pytest.MonkeyPatch.context() as patched:
        patched.setenv("KAFKA", broker.bootstrap)
        for name, payloads in (("avro", avro), ("json", texts)):
            send(broker.bootstrap, make_topic(broker.bootstrap, name=f"orders-{name}"), payloads)
            code, done = run_json(
                site / "db",
                "ingest",
                site / f"orders-{name}.toml",
                "--once",
                *(["--spark"] if name == "avro" else []),
            )
            assert (code, done["rows"], done["rejected"]) == (0, half, 1), done


def test_every_step_shows_the_rows_that_were_made(site: Path, rows: list[Row]) -> None:
    root = site / "db"
    feed(site, rows)
    same(sparkhaven.open_table(root, TABLE).to_arrow(), rows)

    rejected = {}
    for stream in ("orders-avro", "orders-json"):
        code, row = run_json(root, "quarantine", "list", TABLE, stream)
        rejected[stream] = (code, row["position"], row["reason"], row["column"])
    assert rejected == {
        "orders-avro": (0, 7, "not-exactly-representable", "Price"),
        "orders-json": (0, 9, "not-a-value-of-the-type", "Settle"),
    }

    merge(root)
    history = [row for row in rows if row["Date"] != DATES[2]]
    same(sparkhaven.open_table(root, TABLE).to_arrow(), rows)
    for day in DATES[:2]:
        found = shown(sparkhaven.open_table(root, TABLE).to_arrow(tier="history", dates=[day]))
        wanted = [stored(row) for row in sorted(history, key=merged_order) if row["Date"] == day]
        assert [row["At"] for row in found] == [row["At"] for row in wanted]
    indexed(root, rows)
    exported(site, rows)
    queried(site, rows)
    served(site, rows)


def merge(root: Path) -> None:
    """Two of three dates, checked by the rules of the schema; then every file is compared with its checksum."""
    assert run(root, "partitions", "add", "Trading", "0").exit_code == 0
    for day, form in zip(DATES, ("deephaven", "parquet"), strict=False):
        words = ("--dates", day, "--sort", "Settle:desc,At", "--format", form)
        code, done = run_json(root, "merge", TABLE, *words)
        assert code == 0, done
        code, done = run_json(root, "validate", TABLE, "--dates", day)
        assert code == 0, done
    assert run(root, "verify", TABLE, "--deep").exit_code == 0


def indexed(root: Path, rows: list[Row]) -> None:
    """A filter by the index of the group, and by that of the id, reads the rows that match and no others."""
    history = [row for row in rows if row["Date"] != DATES[2]]
    for condition, wanted in (
        ("OrderId = 'O-00007'", [row for row in history if row["OrderId"] == "O-00007"]),
        ("Book = 'Rates'", [row for row in history if row["Book"] == "Rates"]),
    ):
        same(sparkhaven.open_table(root, TABLE).to_arrow(where=condition, tier="history"), wanted)
        query = f"select * from {TABLE} where {condition}"
        code, done = run_json(root, "sql", query, "--tier", "history", "--limit", "0")
        assert (code, done["tables"][0]["rows_read"]) == (0, len(wanted)), done


def exported(site: Path, rows: list[Row]) -> None:
    """A tree of Parquet files, by another reader."""
    assert run(site / "db", "export", TABLE, "--out", site / "out").exit_code == 0
    tree = ds.dataset(site / "out", partitioning=ds.partitioning(pa.schema([("Date", pa.string())]), flavor="hive"))
    same(tree.to_table(), rows)


def queried(site: Path, rows: list[Row]) -> None:
    """SQL, and Spark."""
    root = site / "db"
    assert run(root, "sql", f"select * from {TABLE}", "--out", site / "all.arrow").exit_code == 0
    same(pa.ipc.open_file(site / "all.arrow").read_all(), rows)
    with one_session() as spark:
        options = {"root": str(root), "instant": "long"}  # Spark's own timestamps have no nanoseconds
        same(spark.read.format("deephaven").options(**options).load(TABLE).toArrow(), rows)


def served(site: Path, rows: list[Row]) -> None:
    """An engine shows all rows, and computes with what the codecs hold."""
    with serving(site / "db", site) as engine:
        engine.attach("orders", TABLE.replace(".", "_"))
        engine.wait_count("orders", len(rows))
        same(engine.rows("orders"), rows)
        chosen = engine.rows("orders", where=["Price != null && Price.signum() > 0 && Settle != null"])
        same(chosen, [row for row in rows if (row["Price"] or 0) > 0 and row["Settle"] is not None])

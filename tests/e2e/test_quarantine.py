"""Every wrong value of a table among good rows, by each decoder, through the command line to the table and to Delta.

Nothing is stored as null, rounded, wrapped or cut that was not so in the source; what cannot be stored is in the
quarantine with its reason and payload; and comes back from there once, when it is mended.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from sparkhaven.jobs.cli.main import app
from sparkhaven.readers import open_table
from sparkhaven.store.quarantine.rejected_rows import Reason
from tests.support.ingest.values import CSV_BAD, GOOD, JSON_BAD, NULLED
from tests.support.spark.one_session import one_session

pytestmark = pytest.mark.spark
AT = "2013-01-01T05:00:00Z"
FAR = "2033-01-01T00:00:00Z"
BETWEEN = 40  # good rows before, between and after wrong ones; with those of a whole file the fast pass is used
Row = dict[str, Any]

SCHEMA = """<Table namespace="Test" name="{name}" storageType="NestedPartitionedOnDisk">
  <Partitions keyFormula="${{autobalance_single}}"/>
  <Column name="Date" dataType="String" columnType="Partitioning"/>
  <Column name="Src" dataType="String"/> <Column name="At" dataType="Instant"/> <Column name="Id" dataType="long"/>
  {columns}
  <Column name="Ascii" dataType="String" encoding="US_ASCII"/>
</Table>
"""
STREAM = """name = "{form}"
table = "Test.{name}"
schema = "Test.{name}.schema"
[feed]
type = "files"
path = "feed/*.{form}"
format = "{form}"
[partition]
internal = {{ column = "Src" }}
value = {{ column = "At" }}
clock = "2013-01-02T00:00:00Z"
[bad_rows]
max_rows = 500
max_fraction = 0.5
"""


@dataclass(frozen=True, slots=True)
class Wrong:
    """A row that cannot be stored: its text or, for Parquet, the fields that differ; and why."""

    text: bytes | Row
    code: str
    column: str | None


def code_of(explanation: str) -> str:
    """The code of a reason by its words."""
    return next(reason.value for reason in Reason if reason.words == explanation.partition(" (")[0])


def good(number: int) -> Row:
    """A row with a value in every column."""
    return {"Src": "a", "At": AT, "Id": number, "Ascii": "plain"} | {f"c_{k}": v for k, (v, _) in GOOD.items()}


def json_text(row: Row, **raw: str) -> bytes:
    """A line; ``raw`` are values as JSON text."""
    fields = {name: json.dumps(value) for name, value in row.items()} | raw
    return ("{" + ",".join(f'"{name}":{value}' for name, value in fields.items()) + "}").encode()


def json_wrongs() -> Iterator[Wrong]:
    row = good(-1)
    for kind, text, reason in JSON_BAD:
        yield Wrong(json_text(row, **{f"c_{kind}": text}), code_of(reason), f"c_{kind}")
    yield Wrong(json_text(row, c_double="NaN"), "not-json", None)
    yield Wrong(json_text(row, c_double="-Infinity"), "not-json", None)
    yield Wrong(json_text(row, Ascii='"€"'), "not-in-the-charset", "Ascii")
    yield Wrong(json_text(row)[:-7], "not-json", None)
    yield Wrong(json_text(row)[:-1] + b",}", "not-json", None)
    yield Wrong(b"[" + json_text(row) + b"]", "not-json", None)
    yield Wrong(json_text(row, c_String='"\xff"').replace(b"\xc3\xbf", b"\xff"), "not-utf-8", None)
    yield Wrong(json_text(row, At="null"), "null-partition-value", "At")
    yield Wrong(json_text(row, At=f'"{FAR}"'), "instant-out-of-bounds", "At")
    yield Wrong(json_text(row, Src="null"), "null-internal-partition", "Src")
    yield Wrong(json_text(row, Src='""'), "cannot-name-an-internal-partition", "Src")


NAMES = list(good(0))


def csv_text(row: Row, **raw: str) -> bytes:
    """A record; ``raw`` are fields as they stand."""
    plain = {name: json.dumps(value).strip('"') if not isinstance(value, str) else value for name, value in row.items()}
    return ",".join((plain | raw).values()).encode()


def csv_wrongs() -> Iterator[Wrong]:
    row = good(-1)
    for kind, text, reason in CSV_BAD:
        quoted = f'"{text}"' if "," in text else text
        yield Wrong(csv_text(row, **{f"c_{kind}": quoted}), code_of(reason), f"c_{kind}")
    yield Wrong(csv_text(row, c_int="NaN"), "not-a-number", "c_int")
    yield Wrong(csv_text(row, c_String="\xff").replace(b"\xc3\xbf", b"\xff"), "not-utf-8", None)
    yield Wrong(csv_text(row, Ascii="€"), "not-in-the-charset", "Ascii")
    yield Wrong(csv_text(row).rpartition(b",")[0], "wrong-number-of-fields", None)
    yield Wrong(csv_text(row) + b",more", "wrong-number-of-fields", None)
    yield Wrong(csv_text(row, c_String='"x"y'), "text-after-a-closing-quote", None)
    yield Wrong(csv_text(row, At=""), "null-partition-value", "At")
    yield Wrong(csv_text(row, At=FAR), "instant-out-of-bounds", "At")
    yield Wrong(csv_text(row, Src=""), "null-internal-partition", "Src")


PARQUET: dict[str, pa.DataType] = {
    "c_byte": pa.int64(),
    "c_short": pa.int32(),
    "c_int": pa.float64(),
    "c_long": pa.decimal128(38, 2),
    "c_float": pa.float64(),
    "c_double": pa.float64(),
    "c_Boolean": pa.bool_(),
    "At": pa.string(),
}


def parquet_wrongs() -> Iterator[Wrong]:
    for kind, value, reason in (
        ("byte", 128, "overflow"),
        ("byte", -128, NULLED),
        ("short", 40000, "overflow"),
        ("short", -32768, NULLED),
        ("int", 3.5, "has a fraction"),
        ("int", math.nan, "not a finite number"),
        ("int", math.inf, "not a finite number"),
        ("int", 2.0**31, "overflow"),
        ("int", -(2.0**31), NULLED),
        ("long", Decimal(2**63), "overflow"),
        ("long", Decimal("1.5"), "has a fraction"),
        ("long", Decimal(-(2**63)), NULLED),
        ("float", 1e39, "overflow"),
        ("double", -1.7976931348623157e308, NULLED),
        ("char", "xy", "not one character"),
        ("String", "\x00", "reads back as the empty string"),
        ("Instant", "yesterday", "not an instant"),
        ("Instant", "2263-01-01T00:00:00Z", "outside the range of an Instant"),
    ):
        yield Wrong({f"c_{kind}": value}, code_of(reason), f"c_{kind}")
    yield Wrong({"Ascii": "€"}, "not-in-the-charset", "Ascii")
    yield Wrong({"At": None}, "null-partition-value", "At")
    yield Wrong({"At": FAR}, "instant-out-of-bounds", "At")
    yield Wrong({"Src": None}, "null-internal-partition", "Src")


WRONGS: dict[str, list[Wrong]] = {"json": [*json_wrongs()], "csv": [*csv_wrongs()], "parquet": [*parquet_wrongs()]}


def write_feed(form: str, path: Path) -> dict[int, Wrong]:
    """A file with good rows around wrong ones; the wrong ones by position. Ids of good rows are 0, 1, 2, ..."""
    places: dict[int, Wrong] = {}
    lines: list[bytes] = [",".join(NAMES).encode()] if form == "csv" else []
    rows: list[Row] = []
    text = csv_text if form == "csv" else json_text
    number = 0
    for wrong in (None, *WRONGS[form]):
        if isinstance(wrong, Wrong):
            places[max(len(lines), len(rows)) + 1] = wrong
            if isinstance(wrong.text, bytes):
                lines.append(wrong.text)
            else:
                rows.append(good(-1) | wrong.text)
        for _ in range(BETWEEN):
            (rows.append(good(number)) if form == "parquet" else lines.append(text(good(number))))
            number += 1
    if form == "parquet":
        pq.write_table(pa.table({n: pa.array([r[n] for r in rows], PARQUET.get(n)) for n in NAMES}), path)
    else:
        path.write_bytes(b"".join(line + b"\n" for line in lines))
    return places


def run(root: Path, *words: str, code: int = 0) -> list[dict[str, Any]]:
    """One command; its JSON results."""
    done = CliRunner().invoke(app, ["--root", str(root), *words, "--json"])
    assert done.exit_code == code, (done.stdout, done.stderr, done.exception)
    return [json.loads(line) for line in done.stdout.splitlines()]


def stored(root: Path, name: str) -> list[int]:
    """Ids in the table; every other value must be what the source had."""
    table = open_table(root, f"Test.{name}").to_arrow()
    for kind, (_, value) in GOOD.items():
        column = table[f"c_{kind}"]
        found = column.cast(pa.int64()) if kind == "Instant" else column
        assert set(found.to_pylist()) == {value}, kind
    assert set(table["Ascii"].to_pylist()) == {"plain"}
    return sorted(table["Id"].to_pylist())


@pytest.fixture(scope="module", autouse=True)
def spark() -> Iterator[None]:
    """The commands share a session; that each starts and ends one of its own is the matter of other tests."""
    with one_session():
        yield


@pytest.fixture(scope="module")
def ingested(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, dict[int, Wrong]]]:
    """Three streams, each of its format, ingested in one go."""
    top = tmp_path_factory.mktemp("ingested")
    (top / "feed").mkdir()
    places = {}
    for form in WRONGS:
        columns = "\n  ".join(f'<Column name="c_{kind}" dataType="{kind}"/>' for kind in GOOD)
        (top / f"Test.{form.title()}.schema").write_text(SCHEMA.format(name=form.title(), columns=columns))
        (top / f"{form}.toml").write_text(STREAM.format(form=form, name=form.title()))
        places[form] = write_feed(form, top / "feed" / f"rows.{form}")
    results = run(top / "db", "ingest", *(str(top / f"{form}.toml") for form in WRONGS), "--once")
    for form, result in zip(WRONGS, results, strict=True):
        wrongs = len(WRONGS[form])
        assert (result["rows"], result["rejected"]) == ((wrongs + 1) * BETWEEN, wrongs)
        assert result["epochs"] == 1
    return top, places


@pytest.mark.parametrize("form", WRONGS)
def test_every_wrong_value_is_set_aside_whole_and_its_neighbours_are_untouched(
    ingested: tuple[Path, dict[str, dict[int, Wrong]]], form: str
) -> None:
    top, places = ingested
    assert stored(top / "db", form.title()) == [*range((len(WRONGS[form]) + 1) * BETWEEN)]
    listed = run(top / "db", "quarantine", "list", f"Test.{form.title()}", form)
    found = {row["position"]: (row["reason"], row["column"]) for row in listed}
    assert found == {place: (wrong.code, wrong.column) for place, wrong in places[form].items()}
    for row in listed:
        wrong = places[form][row["position"]]
        assert (row["source"], row["epoch"]) == (str(top / "feed" / f"rows.{form}"), 1)
        if isinstance(wrong.text, bytes):
            assert payload(row) == wrong.text
        else:
            whole = json.loads(payload(row))
            assert whole.keys() == set(NAMES)
            assert all(plainly(whole[name]) == plainly(value) for name, value in wrong.text.items()), (whole, wrong)


def payload(row: Row) -> bytes:
    """The payload of a listed row."""
    if "payload_base64" in row:
        return base64.b64decode(row["payload_base64"])
    return str(row["payload"]).encode()


def plainly(value: Any) -> object:
    """Numbers by their value, whatever they are written as."""
    try:
        return None if value is None else str(Decimal(str(value)).normalize())
    except ArithmeticError:
        return value


def mended(form: str, number: int) -> str:
    row = good(number)
    return (csv_text(row) if form == "csv" else json_text(row)).decode()


def repairs(path: Path, form: str, rows: Sequence[Row], first: int) -> Path:
    """A file for ``requeue --from``."""
    lines = [row | {"payload": mended(form, first + n), "payload_base64": None} for n, row in enumerate(rows)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def test_rows_come_back_once_when_they_are_mended(ingested: tuple[Path, dict[str, dict[int, Wrong]]]) -> None:
    top, _ = ingested
    root = top / "db"
    for form in WRONGS:
        before = stored(root, form.title())
        some = run(root, "quarantine", "list", f"Test.{form.title()}", form, "--limit", "3")
        assert len(some) == 3
        file = repairs(top / f"{form}.jsonl", form, some, 10_000)
        if form == "json":
            (tried,) = run(
                root, "quarantine", "requeue", f"Test.{form.title()}", form, "--from", str(file), "--dry-run"
            )
            assert (tried["sent"], tried["epoch"], stored(root, form.title())) == (3, None, before)
        (done,) = run(root, "quarantine", "requeue", f"Test.{form.title()}", form, "--from", str(file))
        assert (done["sent"], done["refused"], done["epochs"], done["not_pending"]) == (3, 0, [2], 0)
        assert stored(root, form.title()) == [*before, 10_000, 10_001, 10_002]
    (again,) = run(root, "quarantine", "requeue", f"Test.{form.title()}", form, "--from", str(file))
    assert (again["sent"], again["not_pending"], again["ingested_before"]) == (0, 0, 3)
    listed = run(root, "quarantine", "list", f"Test.{form.title()}", form, "--state", "requeued")
    assert [(row["position"], row["requeued_epoch"]) for row in listed] == [(row["position"], 2) for row in some]

    # a setting is corrected: rows that are good by it come back as they are
    settings = (top / "json.toml").read_text()
    (top / "json.toml").write_text(settings.replace("[bad_rows]", 'max_future = "36500 d"\n[bad_rows]'))
    (done,) = run(root, "quarantine", "requeue", "Test.Json", "json", "--reason", "instant-out-of-bounds")
    assert (done["sent"], done["refused"], done["epochs"]) == (1, 0, [3])
    assert stored(root, "Json")[0] == -1
    (done,) = run(root, "quarantine", "requeue", "Test.Json", "json", code=1)
    assert (done["sent"], done["refused"], done["epochs"]) == (0, len(WRONGS["json"]) - 4, [])
    assert (len(done["refusals"]), "overflow" in str(done["refusals"])) == (10, True)

    (dry,) = run(root, "quarantine", "drop", "Test.Json", "json", "--reason", "overflow", "--dry-run")
    (dropped,) = run(root, "quarantine", "drop", "Test.Json", "json", "--reason", "overflow")
    assert dry["dropped"] == dropped["dropped"] > 3
    assert run(root, "quarantine", "list", "Test.Json", "json", "--reason", "overflow") == []
    run(root, "quarantine", "drop", "Test.Json", "json", code=2)
    run(root, "quarantine", "list", "Test.Json", "nosuch", code=2)
    (verified,) = run(root, "verify", "Test.Json")
    assert verified["findings"] == []
    # a start after all that takes nothing twice, and its settings show the positions of the feed only
    (result,) = run(root, "ingest", str(top / "json.toml"), "--once")
    assert (result["rows"], result["epochs"], result["positions"]["files"]) == (0, 0, 1)

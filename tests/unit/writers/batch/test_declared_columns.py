"""A source that does not declare a stored column is refused; fields that no column takes are reported by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sparkhaven.ingest.bad_rows import NAMED, Rejects
from sparkhaven.ingest.feeds.files.options import FilesOptions
from sparkhaven.ingest.formats.csv.csv_rows import CsvDecoder
from sparkhaven.ingest.spec import ColumnSpec, CsvOptions, StreamSpec
from sparkhaven.ingest.targets import near_name, require_columns
from sparkhaven.jobs.streams.stream_run import DataWarnings
from sparkhaven.store.epochs.state.log_values import MAX_IGNORED, ignored_in
from sparkhaven.store.errors import FeedError, SettingsError
from sparkhaven.writers.batch.commit import BatchOutcome
from sparkhaven.writers.task import SplitNotes
from tests.support.ingest.ingest_cases import PLENTY, decode, file_id, schema, stream, target, values, write

TABLE = schema(price="double", size="int")


def _spec(form: str, missing: str = "fail", *columns: ColumnSpec, **csv: Any) -> StreamSpec:
    spec = stream(*columns, form=form)  # type: ignore[arg-type]
    feed = FilesOptions("/feed", form, CsvOptions(**csv), missing_columns=missing)  # type: ignore[arg-type]
    return StreamSpec(spec.stream, spec.table, feed, spec.partition, columns, (), PLENTY)


def _file(path: Path, form: str, names: list[str]) -> Any:
    if form == "csv":
        return write(path, ",".join(names) + "\n" + ",".join("1" for _ in names) + "\n")
    pq.write_table(pa.table({name: [1] for name in names}), path)
    return file_id(path)


@pytest.mark.parametrize("form", ["csv", "parquet"])
@pytest.mark.parametrize("names", [["Price", "size"], [" price", "size"], ["size"]])
def test_a_file_that_lacks_a_column_is_refused(tmp_path: Path, form: str, names: list[str]) -> None:
    split = _file(tmp_path / "a", form, names)
    with pytest.raises(FeedError, match="lacks columns that the table stores") as caught:
        decode(split, _spec(form), TABLE)
    error = caught.value
    assert str(error.where).startswith(split.path)
    assert (error.expected, error.found) == ("'price'", ", ".join(map(repr, names)))
    meant = f'price = {{ from = "{names[0]}" }} under [columns]' if len(names) > 1 else "correct the producer"
    assert meant in str(error.hint) and 'missing_columns = "null"' in str(error.hint)
    routed, _ = decode(split, _spec(form, "null"), TABLE)
    assert (values(routed, "price"), values(routed, "size")) == ([None], [1])
    routed, _ = decode(split, _spec(form, "fail", ColumnSpec("price", source=names[0])), TABLE)
    assert values(routed, "price") == [1.0]


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_file_that_has_no_column_is_refused_in_any_case(tmp_path: Path, form: str) -> None:
    split = _file(tmp_path / "a", form, ["Price", "Size"])
    for missing in ("fail", "null"):
        with pytest.raises(FeedError, match="has no field that a column takes"):
            decode(split, _spec(form, missing), TABLE)


def test_names_of_settings_are_looked_at_before_any_file() -> None:
    targets = [target("double", "price"), target("int", "size")]
    options = CsvOptions(header=False, names=("size",))
    with pytest.raises(SettingsError, match="names of a CSV feed lack columns") as caught:
        CsvDecoder(targets, [], options)
    assert (caught.value.where, caught.value.expected) == ("feed.names", "'price'")
    CsvDecoder(targets, [], options, missing="null")


def test_columns_that_are_declared_elsewhere_are_not_missing() -> None:
    targets = [target("double", "price"), target("int", "size")]
    require_columns(targets, ["size"], "f", further={"price"})
    with pytest.raises(FeedError):
        require_columns(targets, ["size"], "f", further={"other"})
    require_columns([], ["size"], "f")


@pytest.mark.parametrize(
    ("name", "others", "near"),
    [
        ("price", ["PRICE", "prices"], "PRICE"),
        ("bid_price", ["bidPrice"], "bidPrice"),
        ("price", ["\ufeffprice"], "\ufeffprice"),
        ("price", ["prise"], "prise"),
        ("price", ["venue"], None),
    ],
)
def test_the_name_that_may_be_meant(name: str, others: list[str], near: str | None) -> None:
    assert near_name(name, others) == near


def test_fields_that_no_column_takes_are_counted_by_name(tmp_path: Path) -> None:
    rows = [{"price": 1, "size": 1, "venue": "x"}, {"price": 1, "size": 2, "venue": "y", "side": "B"}]
    _, rejects = decode(write(tmp_path / "a.json", rows), _spec("json"), TABLE)
    assert ignored_in(rejects.counts()) == {"venue": 2, "side": 1}
    assert rejects.counts()["ignored_fields"] == 3


def test_names_of_fields_are_bounded() -> None:
    notes = SplitNotes()
    for split in range(20):
        rejects = Rejects(PLENTY)
        rejects.ignored.update(f"{split} {n} {'x' * 1000}" for n in range(100))
        assert len(ignored_in(rejects.counts())) == NAMED
        for name, amount in rejects.counts().items():
            notes.count(name, amount)
    assert len(ignored_in(notes.counts)) == MAX_IGNORED
    assert notes.counts["ignored_fields"] == 2000
    assert max(map(len, notes.counts)) < 100


def test_each_is_reported_once_in_a_run() -> None:
    remarks = DataWarnings()
    first = BatchOutcome(0, 1, counts={"ignored.venue": 1200, "rejected": 1}, empty=("price",))
    assert [line.partition(". ")[0] for line in remarks.of(first)] == [
        "fields without a column: venue (1,200 rows)",
        "no row of this batch has a value for price",
    ]
    assert remarks.of(first) == []
    second = BatchOutcome(1, 2, counts={"ignored.venue": 1, "ignored.side": 2}, empty=("price", "size"))
    assert [line.partition(". ")[0] for line in remarks.of(second)] == [
        "fields without a column: side (2 rows)",
        "no row of this batch has a value for size",
    ]

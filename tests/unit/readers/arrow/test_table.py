"""Reading tables: what comes back, what is opened, what is refused."""

from __future__ import annotations

import pickle
import tracemalloc
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sparkhaven.readers import Snapshot, open_table
from sparkhaven.readers.arrow.snapshot import pinned_of
from sparkhaven.store.errors import (
    NotPermittedError,
    SchemaMismatchError,
    SchemaParseError,
    SettingsError,
    SnapshotMovedError,
    TableNotFoundError,
)
from sparkhaven.store.io.fs import Fs, Stat
from sparkhaven.store.scan.slices import Slice
from tests.support.tables.small_tables import SmallTable

D1, D2 = "2026-11-20", "2026-11-21"


@pytest.fixture
def small(tmp_path: Path) -> SmallTable:
    """Two dates, two sources, four commits."""
    made = SmallTable(tmp_path)
    made.add("a", D1, {"Sym": ["X", None, "Y"], "Size": [1, 2, None], "Px": [0.5, None, float("nan")]})
    made.add("b", D1, {"Sym": ["Y"], "Size": [4], "Note": [""], "Live": [True], "At": [1_700_000_000_000_000_123]})
    made.add("a", D1, {"Sym": ["Z", "X"], "Size": [5, 6], "Note": ["é", None]})
    made.add("a", D2, {"Sym": ["X", "X"], "Size": [7, 8], "Px": [1.0, 2.0]})
    return made


def sizes(small: SmallTable, **options: object) -> list[int | None]:
    """The column Size of a read."""
    found: list[int | None] = open_table(small.root, "NS.T").to_arrow("Size", **options)["Size"].to_pylist()  # type: ignore[arg-type]
    return found


def test_all_rows_in_order_of_date_source_row(small: SmallTable) -> None:
    table = open_table(small.root, "NS.T").to_arrow()
    assert table.column_names == ["Date", "Sym", "Size", "Px", "At", "Live", "Note"]
    assert table["Date"].to_pylist() == [D1] * 6 + [D2] * 2
    assert table["Sym"].to_pylist() == ["X", None, "Y", "Z", "X", "Y", "X", "X"]
    assert table["Size"].to_pylist() == [1, 2, None, 5, 6, 4, 7, 8]
    assert table["Note"].to_pylist() == [None, None, None, "é", None, "", None, None]
    assert table["Live"].to_pylist()[5] is True
    assert table["At"].cast(pa.int64()).to_pylist()[5] == 1_700_000_000_000_000_123
    px = table["Px"].to_pylist()
    assert px[:2] == [0.5, None] and px[2] != px[2]


def test_types_are_dictionaries_or_plain_text(small: SmallTable) -> None:
    opened = open_table(small.root, "NS.T")
    code = pa.dictionary(pa.int32(), pa.string())
    table = opened.to_arrow(["Date", "Sym", "Note"])
    assert [field.type for field in table.schema] == [code, code, pa.string()]
    assert table.schema == opened.arrow_schema(["Date", "Sym", "Note"])
    assert table.group_by("Sym").aggregate([("Date", "count")]).num_rows == 4  # one dictionary for all chunks
    plain = opened.to_arrow(dictionaries=False)
    assert plain.schema == opened.arrow_schema(dictionaries=False) == opened.schema.arrow
    assert plain["Sym"].to_pylist() == table["Sym"].to_pylist()


def test_dictionaries_with_nulls_are_joined_safely(tmp_path: Path) -> None:
    made = SmallTable(tmp_path)
    for number in range(30):
        made.add(f"s{number}", D1, {"Sym": [None, f"t{number}", None]})
    found = open_table(tmp_path, "NS.T").to_arrow("Sym")["Sym"]
    assert sorted(found.drop_null().to_pylist()) == sorted(f"t{number}" for number in range(30))
    for batch in open_table(tmp_path, "NS.T").to_batches("Sym"):  # no index below a null leads out of the dictionary
        assert np.frombuffer(batch.column(0).indices.buffers()[1], np.int32, 3).tolist() == [0, 0, 0]


def test_columns_come_in_the_order_asked_for(small: SmallTable) -> None:
    assert open_table(small.root, "NS.T").to_arrow(["Size", "Date"]).column_names == ["Size", "Date"]


def test_dates_sources_and_predicates(small: SmallTable) -> None:
    assert sizes(small, dates=D2) == [7, 8]
    assert sizes(small, dates=f"{D1}..{D2}", sources="b") == [4]
    assert sizes(small, where="Size > 4") == [5, 6, 7, 8]
    assert sizes(small, where="Sym = 'X' and Date = '2026-11-20'") == [1, 6]
    assert sizes(small, where="Size is null or Size < 2") == [1, None]
    assert open_table(small.root, "NS.T").to_arrow(["Date"], where="Size = 7")["Date"].to_pylist() == [D2]
    assert sizes(small, where="Size > 100") == []


def test_batches_are_the_table(small: SmallTable) -> None:
    opened = open_table(small.root, "NS.T")
    choices: list[dict[str, Any]] = [{}, {"where": "Size != 5"}, {"columns": ["Sym"]}, {"dictionaries": False}]
    for options in choices:
        whole = opened.to_arrow(**options)
        reader = opened.to_batches(batch_rows=2, **options)
        batches = list(reader)
        assert max(batch.num_rows for batch in batches) <= 2
        assert reader.schema == whole.schema
        assert [row for batch in batches for row in batch.to_pylist()].__repr__() == whole.to_pylist().__repr__()


def test_an_error_in_mid_stream_keeps_its_class(small: SmallTable) -> None:
    batches = open_table(small.root, "NS.T").to_batches(["Size"], batch_rows=1)
    next(iter(batches))
    (small.location("b", D1) / "Size.dat").unlink()
    with pytest.raises(Exception, match="a committed file is missing"):
        list(batches)


def test_counts_open_no_data_file(small: SmallTable) -> None:
    class NoData(Fs):
        def map(self, path: Path, length: int) -> pa.Buffer:
            raise AssertionError(f"mapped {path}")

    opened = open_table(small.root, "NS.T", fs=NoData())
    assert opened.count() == 8
    assert opened.count(dates=D1, sources="a") == 5
    assert opened.dates() == [D1, D2]
    assert opened.sources() == ["a", "b"]
    assert open_table(small.root, "NS.T").count(where="Size >= 5") == 4


def test_pruned_locations_and_columns_are_not_opened(small: SmallTable) -> None:
    class Watching(Fs):
        def __init__(self) -> None:
            self.seen: set[str] = set()

        def map(self, path: Path, length: int) -> pa.Buffer:
            self.seen.add(str(path.relative_to(small.root)))
            return super().map(path, length)

    fs = Watching()
    assert open_table(small.root, "NS.T", fs=fs).to_arrow("Px", where="Size >= 7").num_rows == 2
    assert fs.seen == {f"Intraday/NS/T/a/{D2}/T/Size.dat", f"Intraday/NS/T/a/{D2}/T/Px.dat"}
    fs.seen.clear()
    assert open_table(small.root, "NS.T", fs=fs).to_arrow("Px", where="Size = 8 and Px > 1.5").num_rows == 1
    assert open_table(small.root, "NS.T", fs=fs).to_arrow("Note", where="Size = 3").num_rows == 0
    assert not any("Note" in name for name in fs.seen)  # no row matched: no other column was opened


def test_fixed_columns_without_nulls_are_the_mapped_file(small: SmallTable) -> None:
    before = pa.total_allocated_bytes()
    small.add("c", D2, {"Size": list(range(100_000)), "Px": [1.5] * 100_000})
    table = open_table(small.root, "NS.T").to_arrow(["Size", "Px"], sources="c")
    assert pa.total_allocated_bytes() - before < 100_000
    assert table["Size"].chunk(0).buffers()[0] is None
    assert table["Size"].chunk(0).to_pylist() == list(range(100_000))


@pytest.mark.slow
def test_streaming_holds_a_batch_not_the_table(small: SmallTable) -> None:
    rows = 400_000
    small.add("c", D2, {"Size": [None, *range(rows - 1)], "Px": [1.5] * rows, "Sym": ["X", None] * (rows // 2)})
    whole = rows * (4 + 8 + 4)
    tracemalloc.start()
    before, arrow, found = tracemalloc.get_traced_memory()[0], pa.total_allocated_bytes(), 0
    for batch in open_table(small.root, "NS.T").to_batches(["Size", "Px", "Sym"], sources="c", batch_rows=4096):
        found += batch.num_rows
        assert pa.total_allocated_bytes() - arrow < whole / 10
    peak = tracemalloc.get_traced_memory()[1] - before
    tracemalloc.stop()
    assert found == rows
    assert peak < whole / 4, peak


def test_statistics_are_unpacked_once_a_column_not_a_batch(small: SmallTable, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    has_nulls = Slice.has_nulls
    monkeypatch.setattr(Slice, "has_nulls", lambda slice_, name: asked.append(name) or has_nulls(slice_, name))
    table = open_table(small.layout.root, str(small.table))
    assert sum(1 for _ in table.to_batches(["Size", "Px"], batch_rows=1)) == table.count()
    assert sorted(asked) == sorted(["Size", "Px"] * len(pinned_of(open_table(small.root, "NS.T")).plan().slices))


def test_a_snapshot_does_not_move(small: SmallTable) -> None:
    opened = open_table(small.root, "NS.T")
    columns = ["Date", "Sym", "Size", "At", "Live", "Note"]
    before = opened.to_arrow(columns)
    small.append("a", D1, {"Sym": ["uncommitted"], "Size": [98]})
    assert opened.to_arrow(columns).equals(before)
    small.add("a", D1, {"Sym": ["new"], "Size": [99]})
    small.add("z", "2026-11-22", {"Sym": ["new"], "Size": [99]})
    assert opened.to_arrow(columns).equals(before)
    assert open_table(small.root, "NS.T").count() == 10


def test_pinned_epochs(small: SmallTable) -> None:
    assert open_table(small.root, "NS.T").epochs == {"s": 4}
    assert [open_table(small.root, "NS.T", epoch=n).count() for n in range(5)] == [0, 3, 4, 6, 8]
    assert open_table(small.root, "NS.T", epoch={"s": 2}).epochs == {"s": 2}
    with pytest.raises(TableNotFoundError, match="this epoch is before the rollback floor"):
        open_table(small.root, "NS.T", epoch=5)
    with pytest.raises(TableNotFoundError, match="no stream 'q'") as caught:
        open_table(small.root, "NS.T", epoch={"q": 1})
    assert caught.value.expected == "one of s"


def test_one_number_is_no_snapshot_of_two_streams(small: SmallTable) -> None:
    small.add("y", D1, {"Size": [1]}, stream="t")
    with pytest.raises(SettingsError, match="has 2 streams"):
        open_table(small.root, "NS.T", epoch=1)
    opened = open_table(small.root, "NS.T", epoch={"s": 1})
    assert (opened.epochs, opened.count()) == ({"s": 1, "t": 1}, 4)


def test_as_of_a_time(small: SmallTable) -> None:
    start = 1_800_000_000
    assert open_table(small.root, "NS.T", as_of=datetime.fromtimestamp(start + 125, UTC)).epochs == {"s": 2}
    assert open_table(small.root, "NS.T", as_of=datetime.fromtimestamp(start + 60, UTC).isoformat()).epochs == {"s": 1}
    assert open_table(small.root, "NS.T", as_of="2020-01-01").count() == 0
    with pytest.raises(SettingsError, match="as_of is not a time"):
        open_table(small.root, "NS.T", as_of="yesterday")
    with pytest.raises(SettingsError, match="exclude each other"):
        open_table(small.root, "NS.T", as_of="2020-01-01", epoch=1)


def test_a_rolled_back_epoch_is_not_what_as_of_finds(small: SmallTable) -> None:
    small.log().rollback(2)
    assert open_table(small.root, "NS.T").count() == 4
    assert open_table(small.root, "NS.T", as_of=datetime.fromtimestamp(1_800_000_185, UTC)).epochs == {"s": 2}


def test_unknown_names(small: SmallTable) -> None:
    with pytest.raises(TableNotFoundError) as no_table:
        open_table(small.root, "NS.TT")
    assert no_table.value.what == "no table NS.TT"
    assert no_table.value.expected == "one of NS.T"
    with pytest.raises(TableNotFoundError) as no_root:
        open_table(small.root / "nowhere", "NS.T")
    assert "Check --root" in str(no_root.value.hint)
    opened = open_table(small.root, "NS.T")
    with pytest.raises(SchemaMismatchError) as no_column:
        opened.to_arrow(["Size", "Pxx"])
    assert no_column.value.what == "NS.T has no column 'Pxx'"
    assert no_column.value.expected == "one of Px"
    with pytest.raises(SchemaMismatchError, match="requested twice"):
        opened.to_arrow(["Size", "Size"])
    with pytest.raises(SettingsError, match="unknown tier"):
        opened.to_arrow(tier="historic")
    with pytest.raises(SchemaParseError, match="expression cannot be used"):
        opened.to_arrow(where="Pxx > 1")


def test_each_row_once_in_all_tiers(small: SmallTable) -> None:
    pinned = pinned_of(open_table(small.root, "NS.T"))
    before = Snapshot(pinned)
    small.merge_by_hand(D1)
    small.add("a", D1, {"Sym": ["late"], "Size": [9]})
    assert sizes(small) == [1, 2, None, 5, 6, 4, 9, 7, 8]
    assert sizes(small, tier="history") == [1, 2, None, 5, 6, 4]
    assert sizes(small, tier="intraday") == [1, 2, None, 5, 6, 9, 4, 7, 8]
    assert before.to_arrow("Size")["Size"].to_pylist() == [1, 2, None, 5, 6, 4, 7, 8]
    assert pinned.plan().slices[0].tier == "history"


def test_rows_that_were_deleted_under_a_reader_are_an_error_not_a_gap(small: SmallTable) -> None:
    opened = open_table(small.root, "NS.T", epoch=3)
    small.fs.remove_tree(small.location("a", D1))
    with pytest.raises(SnapshotMovedError, match="were merged and deleted"):
        opened.to_arrow()


def test_a_missing_file_is_corruption_not_nulls(small: SmallTable) -> None:
    (small.location("a", D1) / "Size.dat").unlink()
    with pytest.raises(Exception, match="a committed file is missing"):
        open_table(small.root, "NS.T").to_arrow()


def test_a_table_without_rows(tmp_path: Path) -> None:
    SmallTable(tmp_path)
    opened = open_table(tmp_path, "NS.T")
    assert opened.epochs == {}
    table = opened.to_arrow()
    assert (table.num_rows, table.schema) == (0, opened.arrow_schema())
    assert list(opened.to_batches()) == []


def test_what_the_system_refuses_is_an_error_of_ours(tmp_path: Path) -> None:
    class Refusing(Fs):
        """A disk on which one file may not be read."""

        name = ""

        def read(self, path: Path) -> bytes:
            self._look(path)
            return super().read(path)

        def read_range(self, path: Path, offset: int, length: int) -> bytes:
            self._look(path)
            return super().read_range(path, offset, length)

        def stat(self, path: Path, *, follow: bool = True) -> Stat | None:
            self._look(path)
            return super().stat(path, follow=follow)

        def _look(self, path: Path) -> None:
            if path.name == self.name:
                raise PermissionError(13, "Permission denied", str(path))

    small = SmallTable(tmp_path)
    small.add("a", "2026-11-20", {"Sym": ["X"], "Size": [1]})
    small.merge_by_hand("2026-11-20")
    fs = Refusing()
    for name in ("NS.T.schema", "NS.T.history.json", "s.log"):
        fs.name = name
        with pytest.raises(NotPermittedError, match="Permission denied") as caught:
            open_table(tmp_path, "NS.T", fs=fs)
        assert str(caught.value.where).endswith(name)
        assert (caught.value.exit_code, pickle.loads(pickle.dumps(caught.value)).exit_code) == (2, 2)
    fs.name = ""
    opened = open_table(tmp_path, "NS.T", fs=fs)
    for name, read in (("0.json", opened.count), ("Size.dat", opened.to_arrow), ("Size.dat", opened.to_batches)):
        fs.name = name
        with pytest.raises(NotPermittedError, match="Permission denied"):
            list(read())

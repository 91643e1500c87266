"""Column files are the same whether a scanner gives ids of texts or the exact pass gives texts."""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkhaven.ingest.bad_rows import Rejects
from sparkhaven.ingest.content.lines import framed_block
from sparkhaven.ingest.formats.csv.csv_rows import CsvDecoder
from sparkhaven.ingest.formats.json.json_rows import JsonDecoder
from sparkhaven.ingest.formats.scan import ROOM, TextRoom
from sparkhaven.ingest.router import Routed, Router
from sparkhaven.ingest.spec import CsvOptions, InternalRule, PartitionSpec, ValueRule
from sparkhaven.ingest.values.typed_rows import TypedRows
from sparkhaven.store.epochs.state.commit_policy import CommitPolicy
from sparkhaven.store.epochs.state.log_values import FileId
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout, LocationKey, TableName
from sparkhaven.writers.append.append import LocationAppender
from sparkhaven.writers.append.column_files import column_values
from sparkhaven.writers.append.worker_cache import WorkerCache
from sparkhaven.writers.batch.scratch import AttemptScratch
from sparkhaven.writers.task import StreamTarget
from tests.support.ingest.ingest_cases import PLENTY, schema, target

FS = Fs()
TARGETS = [target("String", "place"), target("String", "s"), target("int", "n")]
TABLE = schema(place="String", s="String", n="int")
DAY = "2013-01-01"
PARTITION = PartitionSpec(InternalRule("column", "place"), ValueRule(fixed=DAY))

Line = tuple[str | None, str | None, object]
LINES = st.lists(
    st.tuples(
        st.sampled_from(["A", "B", "C", None]),
        st.none() | st.sampled_from(["", "x", 'q"', "l\n", "é", "long text of its own"]) | st.text("abc", max_size=3),
        st.integers(0, 9) | st.just("bad") | st.just(1e300),
    ),
    max_size=25,
)


def decoded(
    blocks: Sequence[Sequence[Line]], rejects: Rejects, *, csv: bool, compiled: bool, room: TextRoom = ROOM
) -> Iterator[TypedRows]:
    first = 0
    names = ("place", "s", "n")
    options = CsvOptions(header=False, names=names)
    records = CsvDecoder(TARGETS, [], options, compiled=compiled, room=room)
    lines = JsonDecoder(TARGETS, [], compiled=compiled, room=room)
    for block in blocks:
        numbers = np.arange(first, first + len(block), dtype=np.int64)
        first += len(block)
        if csv:
            texts = [",".join("" if v is None else '"' + str(v).replace('"', '""') + '"' for v in row) for row in block]
            made = framed_block([text.encode() for text in texts], numbers)
            yield records.decode(made, "f", rejects)[0]
        else:
            made = framed_block([json_line(dict(zip(names, row, strict=True))) for row in block], numbers)
            yield lines.decode(made, "f", rejects)


def json_line(row: dict[str, object]) -> bytes:
    """With 7 as ``n`` it has a name twice, which the scanner leaves to the exact pass: the last one counts."""
    text = json.dumps(row)
    return (text.replace("{", '{"s":"before",', 1) if row["n"] == 7 else text).encode()


def files_of(
    blocks: Sequence[Sequence[Line]], *, csv: bool, compiled: bool, room: TextRoom = ROOM, few: int = 256
) -> tuple[dict[str, bytes], list[object], set[str]]:
    """The column files of all locations, what the appends report, and the types that the texts came in."""
    kinds: set[str] = set()
    rejects = Rejects(PLENTY)
    held: dict[LocationKey, list[pa.RecordBatch]] = {}
    routing = Router(TARGETS, PARTITION, "f", 0, few_texts=few)
    for rows in decoded(blocks, rejects, csv=csv, compiled=compiled, room=room):
        for routed in routing.route(rows, lambda _: b"", rejects):
            held.setdefault(routed.key, []).append(routed.batch)
            kinds.add(str(routed.batch.column("s").type))
    with tempfile.TemporaryDirectory() as scratch:
        layout, name = Layout(Path(scratch)), TableName("Test", "Rows")
        writer, reports = StreamTarget(layout, name, "s", TABLE, 1, CommitPolicy("none")), []
        for key in sorted(held, key=str):
            appender = LocationAppender(FS, writer, key, WorkerCache(), may_write=lambda: None)
            appender.append(held[key])
            appender.append(held[key][:1])
            report = appender.report()
            reports.append((report.rows, report.files, report.stats))
        paths = sorted(path for path in Path(scratch).rglob("*") if path.suffix in (".dat", ".sym", ".bytes"))
        return {str(path.relative_to(scratch)): path.read_bytes() for path in paths}, [*reports, rejects.bad], kinds


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.lists(LINES, min_size=1, max_size=4), st.integers(0, 8), st.integers(0, 8), st.booleans())
def test_the_same_files(blocks: list[list[Line]], most: int, rows: int, csv: bool) -> None:
    """For any number of texts that are worth ids, and of those that a location of few rows takes with it."""
    room = TextRoom(most, share=1 << 40)
    scanned, exact = (files_of(blocks, csv=csv, compiled=way, room=room, few=rows) for way in (True, False))
    assert scanned[:2] == exact[:2]


def test_dictionaries_and_texts_at_one_location() -> None:
    """Few texts, then too many, then none, over many locations and at one."""
    chance = random.Random(2)
    few: list[Line] = [(chance.choice("AB"), chance.choice(["x", "y", None]), n) for n in range(300)]
    many: list[Line] = [(chance.choice("AB"), f"text {n}", n) for n in range(400)]
    none: list[Line] = [("A", None, n) for n in range(10)]
    for csv in (False, True):
        for blocks in ([few, many], [none, few], [few, none], [few, none, many, few]):
            found = files_of(blocks, csv=csv, compiled=True)
            assert found[:2] == files_of(blocks, csv=csv, compiled=False)[:2]
            assert "dictionary<values=string, indices=int32, ordered=0>" in found[2]
            assert ("string" in found[2]) == (many in blocks or none in blocks)


def test_more_locations_than_a_byte_counts() -> None:
    lines: list[Line] = [(str(n % 700), f"{n % 5}", n) for n in range(2000)]
    found = {one.key.internal: one.batch.column("n").to_pylist() for one in _routed(lines)}
    assert found == {str(place): list(range(place, 2000, 700)) for place in range(700)}


def test_a_location_of_few_rows_does_not_take_the_texts_of_all_with_it() -> None:
    lines = [*(("A", f"text {n}", n) for n in range(40)), ("B", "one", 1), ("B", "two", 2)]
    routed = list(_routed(lines, 3))
    kinds = {one.key.internal: one.batch.column("s").type for one in routed}
    assert pa.types.is_string(kinds["B"]) and not pa.types.is_dictionary(kinds["B"])
    assert {one.key.internal: one.batch.column("s").to_pylist() for one in routed}["B"] == ["one", "two"]
    alone = list(_routed(lines[:40], 3))
    assert len(alone) == 1 and pa.types.is_dictionary(alone[0].batch.column("s").type)


def _routed(lines: Sequence[Line], few: int = 256) -> Iterator[Routed]:
    rejects = Rejects(PLENTY)
    for rows in decoded([lines], rejects, csv=False, compiled=True):
        yield from Router(TARGETS, PARTITION, "f", 0, few_texts=few).route(rows, lambda _: b"", rejects)


def test_spilled_rows_keep_their_own_texts(tmp_path: Path) -> None:
    """Each block has another dictionary, or none; a task whose location another one owns writes them to one stream."""
    blocks: list[list[str | None]] = [["a", "b", None], ["b", "c"], ["d", "a"]]
    batches = [pa.RecordBatch.from_pydict({"s": pa.array(texts).dictionary_encode()}) for texts in blocks]
    batches.append(pa.RecordBatch.from_pydict({"s": pa.array(["x", None])}))
    split = FileId("/f", 1, 1)
    spill = AttemptScratch(FS, tmp_path, 0, 0)
    files = spill.write(LocationKey("A", DAY), [(split, batch) for batch in batches])
    back = [batch for file in files for batch in pa.ipc.open_stream(FS.read(file.path))]
    assert [batch.column("s").to_pylist() for batch in back] == [*blocks, ["x", None]]
    column = TABLE.columns[2]
    values = column_values(column, pa.Table.from_batches(back[:3]).rename_columns([column.name]).to_batches())
    assert values.to_pylist() == [text for texts in blocks for text in texts]

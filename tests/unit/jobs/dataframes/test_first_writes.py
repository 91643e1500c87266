"""A first write of a data source that fails, or has no rows, leaves nothing behind but a deployed schema."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.types import StructType

from sparkhaven.jobs.dataframes.frame_stream import open_stream
from sparkhaven.jobs.dataframes.source_writers import batch_writer
from sparkhaven.jobs.settings.source_options import write_options
from sparkhaven.store.epochs.files.stream_notes import RemovedStream, read_removed, write_removed
from sparkhaven.store.errors import ErrorBudgetExceeded, LockLostError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout
from sparkhaven.store.places import StreamPlace
from tests.support.commands import run, run_json
from tests.support.spark.data_source import TYPES, Write, options, rows, write
from tests.support.spark.frames import STREAM, TABLE, epochs, numbers

pytestmark = pytest.mark.slow
FS = Fs()
Begin = Callable[..., Any]


def tree(root: Path) -> dict[str, bytes | None]:
    return {str(path.relative_to(root)): path.read_bytes() if path.is_file() else None for path in root.rglob("*")}


def bad_schema(root: Path, begin: Begin) -> None:
    path = root.parent / "bad.schema"
    path.write_text("<Table")
    begin(root, schema=str(path))


def other_table(root: Path, begin: Begin) -> None:
    options(root)
    path = root.parent / "other.schema"
    path.write_bytes((root.parent / f"{root.name}.schema").read_bytes().replace(b'"Quote"', b'"Other"'))
    begin(root, schema=str(path))


def fewer_columns(root: Path, begin: Begin) -> None:
    begin(root, StructType(TYPES.fields[:-1]))


def no_positions(root: Path, begin: Begin) -> None:
    begin(root, positions='{"partition": "part", "offset": "off"}')


def a_bad_row(root: Path, begin: Begin) -> None:
    begun = begin(root)
    messages = begun.tasks([rows(range(4))], [rows([5], Small=99_999)])
    with pytest.raises(ErrorBudgetExceeded):
        begun.commit(messages)
    begun.abort(messages)
    raise ErrorBudgetExceeded("as Spark says")


def speculation(root: Path, begin: Begin) -> None:
    begun = begin(root)
    messages = begun.tasks([rows(range(4))], **{"spark.speculation": "true"})
    try:
        begun.commit(messages)
    finally:
        begun.abort(messages)


def killed_tasks(root: Path, begin: Begin) -> None:
    begun = begin(root)
    begun.abort([*begun.tasks([rows(range(4))]), pickle.dumps(None)])
    raise RuntimeError("as Spark says")


BEFORE = {"no XML": bad_schema, "a schema of another table": other_table}
AFTER = {
    "columns that do not fit": fewer_columns,
    "no columns of positions": no_positions,
    "a row that cannot be stored": a_bad_row,
    "speculation": speculation,
    "a task that is killed": killed_tasks,
}


def starts(query: str) -> Begin:
    def begin(root: Path, types: StructType = TYPES, **more: str) -> Write:
        return Write(options(root, **more), types, query=query)

    return begin


@pytest.mark.parametrize("query", ["", "q"])
@pytest.mark.parametrize("kind", [*BEFORE, *AFTER])
def test_a_first_write_that_fails_leaves_the_root_as_it_was(tmp_path: Path, kind: str, query: str) -> None:
    fail = (BEFORE | AFTER)[kind]
    fresh = tmp_path / "fresh"
    with pytest.raises(Exception):  # noqa: B017  of many kinds
        fail(fresh, starts(query))
    assert not fresh.exists() if kind in BEFORE else {path.name for path in fresh.iterdir()} == {"Schemas"}
    used = tmp_path / "used"
    write(used, [rows(range(10, 14))], stream="other", internal='{"fixed": "other"}')
    before = tree(used)
    with pytest.raises(Exception):  # noqa: B017
        fail(used, starts(query))
    assert tree(used) == before
    write(used, [rows(range(4))], query=query)
    assert numbers(used) == [*range(4), *range(10, 14)]


@pytest.mark.parametrize("query", ["", "q"])
def test_a_later_write_that_fails_leaves_the_stream(tmp_path: Path, query: str) -> None:
    root = tmp_path / "db"
    write(root, [rows(range(4))], query=query)
    for fail in AFTER.values():
        with pytest.raises(Exception):  # noqa: B017
            fail(root, starts(query))
    assert (numbers(root), epochs(root)) == ([*range(4)], 1)


def test_a_frame_without_rows_leaves_nothing_unless_it_is_a_batch_of_a_query(tmp_path: Path) -> None:
    root = tmp_path / "db"
    write(root, [], label="day")
    assert {path.name for path in root.iterdir()} == {"Schemas"}
    write(root, [], query="q")
    assert epochs(root) == 1


def test_a_failed_write_takes_nothing_from_the_writer_that_came_after_it(tmp_path: Path) -> None:
    root = tmp_path / "db"
    first = Write(options(root))
    messages = first.tasks([rows(range(4))])
    second = Write(options(root))
    first.abort(messages)
    second.commit(second.tasks([rows(range(5, 8))]))
    assert (numbers(root), epochs(root)) == ([5, 6, 7], 1)


def test_a_write_whose_stream_was_removed_meanwhile_is_refused(tmp_path: Path) -> None:
    root = tmp_path / "db"
    begun = Write(options(root))
    messages = begun.tasks([rows(range(4))])
    assert run(root, "streams", "remove", str(TABLE), STREAM).exit_code == 0
    with pytest.raises(LockLostError):
        begun.commit(messages)
    begun.abort(messages)
    write(root, [rows(range(9))])
    assert (numbers(root), epochs(root)) == ([*range(9)], 1)


def test_a_write_that_was_killed_is_listed_and_removed(tmp_path: Path) -> None:
    root = tmp_path / "db"
    Write(options(root)).tasks([rows(range(4))])
    (one,) = run_json(root, "streams", "list")[1]["streams"]
    assert (one["stream"], one["epochs"], one["left"]) == (STREAM, 0, "log")
    assert run(root, "streams", "remove", str(TABLE), STREAM).exit_code == 0
    assert run_json(root, "streams", "list")[1] == {"streams": []}
    assert run_json(root, "verify")[1]["findings"] == []


def test_a_first_write_under_the_name_of_a_removed_stream_leaves_its_note(tmp_path: Path) -> None:
    root = tmp_path / "db"
    layout = Layout(root)
    FS.mkdirs(layout.streams(TABLE))
    write_removed(StreamPlace(FS, layout, TABLE, STREAM), RemovedStream(7, 3, 0))
    with pytest.raises(ErrorBudgetExceeded):
        a_bad_row(root, starts(""))
    assert [path.name for path in layout.streams(TABLE).iterdir()] == [f"{STREAM}.removed"]
    note = read_removed(StreamPlace(FS, layout, TABLE, STREAM))
    assert note is not None and note.epoch > 7
    batch_writer(options(root), TYPES, False)
    frame = write_options(options(root), {}, streaming=False).frame
    with open_stream(FS, frame, "").log as log:
        assert log.state.epoch > note.epoch

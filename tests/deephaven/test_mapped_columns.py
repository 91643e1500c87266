"""Columns that a real engine reads from mapped memory: every type with nulls, while they grow, and when they end."""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from sparkhaven.readers.live.service import is_plain
from sparkhaven.store.io.fs import MAP_FROM
from tests.support.processes import wait_until
from tests.support.served import PATIENCE, ClientError, Served, require_engine, serving
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.merge_cases import ARROW, DAY, SCHEMA, as_table, comparable, random_row
from tests.support.writers.merge_runs import FS

MAPPED = MAP_FROM + 1_000  # rows: a column of bytes is mapped too
TAIL, MORE = 3_000, MAPPED // 2  # rows that come by pages, and so many that the columns are mapped anew
BY_PAGES = "reads by pages"

pytestmark = pytest.mark.deephaven


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    require_engine()
    base = tmp_path_factory.mktemp("mapped")
    base.joinpath("db").mkdir()
    with serving(base / "db", base) as found:
        yield found


def many(seed: int, count: int, venue: str) -> pa.Table:
    """Random rows, most of them several times; ``venue`` is among the symbols."""
    rows = [random_row(random.Random(seed * 1_000 + n)) for n in range(1_000)]
    rows[0]["Venue"] = venue
    return as_table(rows).take(pa.array(np.random.default_rng(seed).integers(0, len(rows), count)))


def require_equal(found: pa.Table, wanted: pa.Table) -> None:
    """Row by row, in this order."""
    assert found.num_rows == wanted.num_rows
    for name in wanted.column_names:
        columns = [each[name].cast(pa.int64()) if name == "T" else each[name] for each in (found, wanted)]
        values = [[comparable(value) for value in column.to_pylist()] for column in columns]
        assert values[0] == values[1], name


def mapped(served: Served, part: str) -> set[str]:
    """Names of the files that the server has mapped, of those whose paths have a part."""
    lines = Path(f"/proc/{served.server.pid}/maps").read_text(encoding="utf-8").splitlines()
    return {Path(line.split(maxsplit=5)[-1]).name for line in lines if part in line}


def objects(served: Served) -> str:
    """How many objects of the classes that hold memory the engine has, after a full collection of garbage."""
    words = ["jcmd", str(served.server.pid), "GC.class_histogram"]
    lines = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE).stdout.splitlines()
    return "\n".join(line for line in lines if "sparkhaven" in line or "PyObject" in line)


def test_every_type_with_nulls_while_rows_come(served: Served) -> None:
    db = IntradayRows(served.root, SCHEMA, fs=FS)
    wanted = many(1, MAPPED, "first")
    db.commit({("a", DAY): wanted})
    served.attach("every", "Test_Every")
    require_equal(served.wait("every", MAPPED), wanted)
    plain = {column.name for column in db.schema.stored if is_plain(column)}
    assert plain == set(ARROW) - {"Note", "Flag"}
    assert mapped(served, "Every") >= {f"{name}.dat" for name in plain}
    for seed, count, venue in ((2, TAIL, "second"), (3, MORE, "third"), (4, TAIL, "fourth")):
        more = many(seed, count, venue)
        db.commit({("a", DAY): more})
        wanted = pa.concat_tables([wanted, more])
        require_equal(served.wait("every", wanted.num_rows), wanted)
    some = [served.rows("every", where=[f"Venue = `{venue}`"]) for venue in ("first", "third", "fourth")]
    for venue, found in zip(("first", "third", "fourth"), some, strict=True):
        require_equal(found, wanted.filter(pc.equal(wanted["Venue"], venue)))
    require_equal(served.rows("every", where=["B > 100"]), wanted.filter(pc.greater(wanted["B"], 100)))
    assert BY_PAGES not in served.notes


def test_a_table_that_has_ended_releases_its_mappings(served: Served) -> None:
    db = IntradayRows(served.root, SCHEMA.replace(b'name="Every"', b'name="Ended"'), fs=FS)
    first, second = many(5, MAPPED, "first"), many(6, TAIL, "second")
    db.commit({("a", DAY): first})
    db.commit({("a", DAY): second})
    served.attach("before", "Test_Ended")
    require_equal(served.wait("before", MAPPED + TAIL), pa.concat_tables([first, second]))
    assert mapped(served, "Ended")
    db.log.rollback(1)
    wait_until(
        lambda: not mapped(served, "Ended"),
        PATIENCE,
        lambda: f"{mapped(served, 'Ended')} are still mapped\n{served.notes}\n{objects(served)}",
        every=0.1,
    )
    with pytest.raises(ClientError):
        served.rows("before", where=["L = 1"])
    require_equal(served.wait_anew("after", "Test_Ended", MAPPED), first)


def test_files_that_are_cut_short_below_their_mappings_do_not_end_the_engine(served: Served) -> None:
    db = IntradayRows(served.root, SCHEMA.replace(b'name="Every"', b'name="Cut"'), fs=FS)
    wanted = many(7, MAPPED, "first")
    db.commit({("a", DAY): wanted})
    served.attach("cut", "Test_Cut")
    require_equal(served.wait("cut", MAPPED), wanted)
    for name in ("L", "B", "Sym"):
        file = next(served.root.rglob(f"Cut/{name}.dat"))
        os.truncate(file, 8192)
    for name in ("L", "B"):
        for _ in range(3):
            with pytest.raises(ClientError):
                served.rows("cut", columns=[name])
            with pytest.raises(ClientError):
                served.rows("cut", where=[f"{name} = 1"])
    with pytest.raises(ClientError):
        served.rows("cut", columns=["Sym"])
    require_equal(served.rows("cut", columns=["D", "S"]), wanted.select(["D", "S"]))

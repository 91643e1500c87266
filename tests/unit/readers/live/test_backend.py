"""Subscriptions beside a delivering thread, and the pages and settings of an engine."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager
from pathlib import Path

import pyarrow as pa
import pytest

from sparkhaven.readers.live.live_root import LiveRoot
from sparkhaven.readers.live.service import PAGE_ROWS, EngineOptions, page_rows
from sparkhaven.readers.live.shown_locations import LiveLocation
from sparkhaven.store.errors import SettingsError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.tables.live_tables import Engine

SCHEMA = """<Table namespace="NS" name="T" storageType="NestedPartitionedOnDisk">
  <Partitions keyFormula="${autobalance_single}"/>
  <Column name="Date" dataType="String" columnType="Partitioning"/><Column name="N" dataType="long"/></Table>"""
DAY = "2024-03-05"


def rows(tmp_path: Path, namespace: str = "NS", table: str = "T") -> IntradayRows:
    named = SCHEMA.replace('"NS" name="T"', f'"{namespace}" name="{table}"')
    return IntradayRows(tmp_path, named.encode())


def one(number: int = 1) -> pa.Table:
    return pa.table({"N": [number]})


def test_each_place_comes_once_also_when_it_appears_during_the_subscription(tmp_path: Path) -> None:
    house = rows(tmp_path)
    house.commit({("a", DAY): one()})
    engine = Engine(tmp_path)
    told: list[str] = []

    def on_place(place: LiveLocation, values: pa.Table) -> None:
        told.append(place.at.internal)
        if place.at.internal == "a":  # another thread delivers meanwhile
            house.commit({("b", DAY): one()})
            other = threading.Thread(target=engine.look)
            other.start()
            other.join()

    engine.backend.follow_places(engine.root.keys["NS_T"], on_place, lambda: told.append("done"), pytest.fail)
    engine.look()
    assert told == ["a", "b", "done"]


def test_who_has_left_is_told_nothing(tmp_path: Path) -> None:
    house = rows(tmp_path)
    house.commit({("a", DAY): one()})
    engine = Engine(tmp_path)
    attached = engine.attach("NS_T")
    key = attached.key
    assert engine.backend.is_followed(key)
    attached.leave()
    house.commit({("b", DAY): one()})
    engine.look()
    assert len(attached.sizes) == 1
    assert not engine.backend.is_followed(key)


def test_health_counts_and_a_thread_that_ends(tmp_path: Path) -> None:
    rows(tmp_path).commit({("a", DAY): one()})
    house = rows(tmp_path, "Other")
    house.commit({("a", DAY): one()})
    root = LiveRoot(Fs(), Layout(tmp_path), None, note=pytest.fail, now_ms=lambda: 1_700_000_002_070)
    assert root.tables == {"NS.T": "NS_T", "Other.T": "Other_T"}
    assert (root.health().tables, root.health().rows, root.health().lag_ms) == (2, 2, None)
    house.commit({("a", DAY): one()})
    root.look(1.0)
    health = root.health()
    assert (health.rows, health.lag_ms) == (3, 70)
    stop = threading.Event()
    stop.set()
    root.run(stop, lambda: 0.0, pytest.fail, pytest.fail, pytest.fail)


def test_an_unexpected_error_ends_the_loop(tmp_path: Path) -> None:
    house = rows(tmp_path)
    house.commit({("a", DAY): one()})
    engine = Engine(tmp_path)
    house.commit({("a", DAY): one()})

    def gate() -> AbstractContextManager[object]:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        engine.root.run(threading.Event(), lambda: 200.0, gate, pytest.fail, pytest.fail)


def test_two_tables_of_one_variable_are_refused(tmp_path: Path) -> None:
    for namespace, table in (("A_B", "C"), ("A", "B_C")):
        rows(tmp_path, namespace, table).commit({("a", DAY): one()})
    with pytest.raises(SettingsError, match="same name in the server"):
        Engine(tmp_path, "A_B.C", "A.B_C")
    engine = Engine(tmp_path)
    assert list(engine.root.keys) == ["A_B_C"]
    assert "A_B.C is not served" in engine.notes[0]


@pytest.mark.parametrize(
    ("memory", "locations", "columns", "found"),
    [(2 << 30, 1, 10, 262_128), (1 << 30, 560, 3, 16_368), (1 << 30, 100_000, 50, PAGE_ROWS[0]), (1, 0, 0, 1008)],
)
def test_pages_of_many_locations_fit_into_the_heap(memory: int, locations: int, columns: int, found: int) -> None:
    assert page_rows(memory, locations, columns) == found


def test_page_and_console_are_off_unless_they_are_asked_for_and_keys_are_random() -> None:
    options, other = EngineOptions("127.0.0.1", 0, 1 << 30), EngineOptions("127.0.0.1", 0, 1 << 30, ui=True)
    assert {"-Ddeephaven.console.disable=true", "-Dhttp.allowedMethods=POST"} <= set(options.jvm_arguments())
    assert "-Ddeephaven.console.disable=false" in other.jvm_arguments()
    assert options.key != other.key and len(options.key) >= 32
    assert "-Xmx1048576k" in options.jvm_arguments()

"""Paths of the tree as plain strings, and names that become no path."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from sparkhaven.store.errors import InvalidNameError
from sparkhaven.store.layout import (
    Layout,
    LocationKey,
    TableName,
    check_identifier,
    check_partition,
    check_stream,
    encode_internal,
    without_generation,
)

LAYOUT, TABLE, KEY = Layout(Path("/db")), TableName("NS", "T"), LocationKey("a", "2026-11-20")


def test_every_path_of_the_tree() -> None:
    named = {
        "Schemas/NS.T.schema": LAYOUT.schema(TABLE),
        "Schemas/NS.T.history.json": LAYOUT.schema_history(TABLE),
        "Intraday/NS/T/a/2026-11-20/T": LAYOUT.intraday_location(TABLE, KEY),
        "Intraday/NS/T/.set-aside": LAYOUT.set_aside(TABLE),
        "Intraday/NS/T/.streams/s.log": LAYOUT.stream_log(TABLE, "s"),
        "Intraday/NS/T/.streams/s.checkpoint": LAYOUT.stream_checkpoint(TABLE, "s"),
        "Intraday/NS/T/.streams/s.head": LAYOUT.stream_head(TABLE, "s"),
        "Intraday/NS/T/.streams/s.lock": LAYOUT.stream_lock(TABLE, "s"),
        "Intraday/NS/T/.streams/s.removals": LAYOUT.stream_removals(TABLE, "s"),
        "Intraday/NS/T/.streams/s.quarantine": LAYOUT.stream_quarantine(TABLE, "s"),
        "Intraday/NS/T/.streams/s.removed": LAYOUT.stream_removed(TABLE, "s"),
        "Systems/NS/WritablePartitions": LAYOUT.writable_partitions("NS"),
        "Systems/NS/Partitions/a/2026-11-20/T": LAYOUT.history_location(TABLE, KEY),
        "Systems/NS/MetadataIndex/T.tlmi": LAYOUT.metadata_index(TABLE),
        "Systems/NS/MetadataIndex/.T.merges": LAYOUT.merges(TABLE),
        "Systems/NS/Extended/T": LAYOUT.extended(TABLE),
        ".scratch/NS.T/s": LAYOUT.scratch(TABLE, "s"),
        ".spark/NS.T/s": LAYOUT.spark_checkpoint(TABLE, "s"),
        ".quarantine/s": LAYOUT.quarantine("s"),
        ".requeue/NS.T/s": LAYOUT.requeues(TABLE, "s"),
    }
    assert {path: str(found) for path, found in named.items()} == {path: f"/db/{path}" for path in named}


@pytest.mark.parametrize(
    ("check", "taken", "refused"),
    [
        (lambda name: check_identifier("table name", name), ["T", "_t9", "x" * 200], ["", "9", "a-b", "é", "x" * 201]),
        (check_stream, ["s", "0", "a.b-c_d"], ["", ".s", "-s", "a/b", "é", "s\n", "x" * 201]),
        (
            lambda name: check_partition("partition value", name),
            ["a", "2026-11-20 07:00", "é", "x" * 200],
            ["", ".", "..", ".a", "a/b", "a\\b", "a\x00", "a\n", "\x85", "x" * 201, "é" * 101],
        ),
    ],
)
def test_names_that_become_a_path_unchanged_and_names_that_do_not(
    check: Callable[[str], str], taken: list[str], refused: list[str]
) -> None:
    assert [check(name) for name in taken] == taken
    for name in refused:
        with pytest.raises(InvalidNameError, match="cannot become a path") as caught:
            check(name)
        assert caught.value.found == repr(name) and caught.value.hint


def test_values_become_internal_partitions_and_generations_go() -> None:
    values = {"a": "a", "A.b_c-d=9": "A.b_c-d=9", ".a": "%2Ea", "a b/é~%": "a%20b%2F%C3%A9%7E%25"}
    assert {value: encode_internal(value) for value in values} == values
    for value in ("", "x" * 201, "/" * 67, "\ud800"):
        with pytest.raises(InvalidNameError):
            encode_internal(value)
    names = {"0": "0", "0.g2": "0", "a.b.s31": "a.b", "0.g": "0.g", "0.x2": "0.x2"}
    assert {name: without_generation(name) for name in names} == names


def test_a_table_name_has_two_parts() -> None:
    assert TableName.parse("NS.T") == TABLE and str(TABLE) == "NS.T"
    for text in ("T", "NS.", ".T", "NS.T.U", "a/b.T", "NS.T "):
        with pytest.raises(InvalidNameError):
            TableName.parse(text)

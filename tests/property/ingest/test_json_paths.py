"""Fields inside objects come out of the scanner exactly as out of the exact pass, whatever stands around them."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkhaven.ingest.bad_rows import Rejects
from sparkhaven.ingest.content.lines import framed_block
from sparkhaven.ingest.formats.json.field_paths import path_of, value_at
from sparkhaven.ingest.formats.json.json_rows import JsonDecoder
from sparkhaven.ingest.spec import BadRowBudget, Target
from sparkhaven.ingest.values.typed_rows import TypedRows
from sparkhaven.store.types.datatypes import data_type
from sparkhaven.store.types.model import Column, Kind, Storage


def target(source: str, kind: str) -> Target:
    encoding = "UTF_8" if kind == "String" else None
    name = source.replace(".", "_")
    return Target(
        Column(name, data_type(kind), Kind.NORMAL, Storage.NONE, 0, encoding), source, "iso", None, None, True
    )


TARGETS = [target("a.b", "int"), target("a.c.d", "String"), target("x", "long"), target("a.e", "double")]


def decode(lines: list[bytes], *, compiled: bool) -> tuple[TypedRows, Rejects]:
    rejects = Rejects(BadRowBudget(max_rows=10**6))
    block = framed_block(lines, np.arange(len(lines), dtype=np.int64))
    return JsonDecoder(TARGETS, ["known"], compiled=compiled).decode(block, "t/0", rejects), rejects


def same(lines: list[bytes]) -> tuple[TypedRows, Rejects]:
    fast, fast_rejects = decode(lines, compiled=True)
    exact, exact_rejects = decode(lines, compiled=False)
    assert fast.numbers.tolist() == exact.numbers.tolist()
    assert [column.to_pylist() for column in fast.columns] == [column.to_pylist() for column in exact.columns]
    assert [str(row) for row in fast_rejects.rows] == [str(row) for row in exact_rejects.rows]
    assert fast_rejects.ignored == exact_rejects.ignored
    return fast, fast_rejects


HOSTILE = [
    b'{"a":{"b":1,"c":{"d":"x"},"e":2.5},"x":5}',
    b'{"a":null,"x":5}',
    b"{}",
    b'{"a":{}}',
    b'{"a":{"c":null}}',
    b'{"a":5}',
    b'{"a":[{"b":1}]}',
    b'{"a":"{\\"b\\":1}"}',
    b'{"a":{"c":7}}',
    b'{"a":{"b":1,"b":2}}',
    b'{"a":{"b":1},"a":{"b":2}}',
    b'{"a":{"b":NaN}}',
    b'{"a":{"z":NaN}}',
    b'{"a":{"c":{"z":nan}}}',
    b'{"a":{"b":1,}}',
    b'{"a":{"c":{"d":"x",}}}',
    b'{"a":{"b":1.0}}',
    b'{"a":{"b":1.5}}',
    b'{"a":{"b":3000000000}}',
    b'{"a":{"b":"1"}}',
    b'{"a":{"z":1,"y":{"q":[1,2]}},"w":1,"known":2}',
    b'{"a":{"c":{"d":"x\\u002cy","k":1}}}',
    b'{"a":{"b":2147483647.00000000001}}',
    b'{"a.b":9,"a":{"b":8}}',
    b'{"a":{"c":{"d":{"d":1}}}}',
    b'{"a": {\n "b": 4,\n "c": {"d": "l\xc3\xa9"}\n}}',
    b'{"a":nulL}',
    b'{"a":{"e":1e400}}',
]


@pytest.mark.slow
@pytest.mark.parametrize("line", HOSTILE)
def test_each_hostile_line_alone_and_among_good_ones(line: bytes) -> None:
    same([line])
    good = HOSTILE[0]
    same([good, line, good, line])


def test_all_hostile_lines_together() -> None:
    rows, rejects = same(HOSTILE * 3)
    assert len(rows) > 0 and rejects.bad and rejects.ignored


names = st.sampled_from(["a", "b", "c", "d", "e", "x", "z", "known"])
scalars = st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.floats(allow_nan=True) | st.text(max_size=4)
values = st.recursive(scalars, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(names, inner, max_size=4))
records = st.dictionaries(names, values, max_size=4)


@pytest.mark.slow
@given(st.lists(records, min_size=1, max_size=12))
@settings(max_examples=60, deadline=None)
def test_any_records(found: list[dict[str, Any]]) -> None:
    same([json.dumps(record).encode() for record in found])


def test_paths() -> None:
    assert path_of("a.b") == ("a", "b") and path_of(r"a\.b.c") == ("a.b", "c") and path_of("a") == ("a",)
    assert value_at({"a.b": {"c": 1}}, path_of(r"a\.b.c")) == 1

"""Fields inside objects: ``a.b`` is field ``b`` of the object in field ``a``, at any depth; a dot in a name is ``\\.``.

An object inside a line is looked at as the line itself is: DuckDB cuts its compact text into the wanted fields, and
what it found is only believed where commas and fields add up (``ingest.formats.json.rows``); where they do not, the
keys are asked for. A null, or a missing object, makes all that is in it null; any other value in its place is a bad
row.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa

from ingest.formats.json.proof import field_texts, lines_not_adding_up, plain, shapes_of
from ingest.values.columns import Mask, bytes_of, compact, offsets_of
from ingest.values.refusals import Refusal
from ingest.values.rows import Ints

Path = tuple[str, ...]

_DOT = re.compile(r"(?<!\\)\.")
_BRACE = 0x7B
_NULL_START = 0x6E


@dataclass(slots=True)
class Found:
    """Texts of fields by path, one entry for each line; lines in doubt; how often each unknown field was met.

    ``unknown`` has the lines (indices) that have each unknown field, by its dotted name.
    """

    texts: dict[Path, pa.StringArray]
    doubt: Mask
    unknown: list[tuple[str, Ints]]

    def count(self, good: Mask) -> Counter[str]:
        """How many of the good lines have each unknown field."""
        found: Counter[str] = Counter()
        for name, lines in self.unknown:
            found[name] += int(good[lines].sum())
        return found


def path_of(source: str) -> Path:
    """The names on the way to a field."""
    return tuple(name.replace("\\.", ".") for name in _DOT.split(source))


def all_plain(paths: Sequence[Path]) -> bool:
    """Whether the fast pass can look for all of these."""
    return all(plain(name) for path in paths for name in path)


def value_at(record: dict[str, Any], path: Path) -> Any:
    """The value at a path, None where there is none; a Refusal where something else stands in an object's place."""
    value: Any = record
    for depth, name in enumerate(path):
        if value is None:
            return None
        if not isinstance(value, dict):
            return Refusal(f"no object ({'.'.join(path[:depth])})", "an object or null")
        value = value.get(name)
    return value


def unknown_names(record: dict[str, Any], paths: Sequence[Path], prefix: Path = ()) -> list[str]:
    """Dotted names of the fields that no path leads to, inside the objects that paths lead through."""
    heads = {path[0] for path in paths}
    found = [".".join((*prefix, name)) for name in record if name not in heads]
    for head in sorted(heads):
        deeper = [path[1:] for path in paths if path[0] == head and len(path) > 1]
        inner = record.get(head)
        if deeper and isinstance(inner, dict):
            found += unknown_names(inner, deeper, (*prefix, head))
    return found


def inner_texts(texts: pa.StringArray, paths: Sequence[Path], prefix: Path) -> Found:
    """The fields at ``paths`` of the objects in ``texts``, which are compact JSON, null where there is none."""
    count = len(texts)
    found = Found({}, np.zeros(count, np.bool_), [])
    rows, found.doubt = _objects(texts)
    names = tuple(dict.fromkeys(path[0] for path in paths))
    lines = texts.take(pa.array(rows))
    try:
        fields = field_texts(lines, names) if len(rows) else [pa.nulls(0, pa.string()) for _ in names]
    except duckdb.Error:
        found.doubt[rows] = True
        fields = [pa.nulls(len(rows), pa.string()) for _ in names]
    if len(rows):
        _prove(found, lines, fields, names, rows, prefix)
    for name, field in zip(names, fields, strict=True):
        spread = _spread(field, rows, count)
        deeper = [path[1:] for path in paths if path[0] == name and len(path) > 1]
        if (name,) in paths:
            found.texts[(*prefix, name)] = spread
        if deeper:
            inner = inner_texts(spread, deeper, (*prefix, name))
            found.texts |= inner.texts
            found.doubt |= inner.doubt
            found.unknown += inner.unknown
    return found


def _objects(texts: pa.StringArray) -> tuple[Ints, Mask]:
    """Which texts are objects, and which are neither an object nor null."""
    valid = texts.is_valid().to_numpy(zero_copy_only=False)
    data, starts = bytes_of(texts), offsets_of(texts)[:-1] - offsets_of(texts)[0]
    first = np.zeros(len(texts), np.uint8)
    first[valid] = data[starts[valid]]
    return np.flatnonzero(first == _BRACE), valid & (first != _BRACE) & (first != _NULL_START)


def _prove(
    found: Found, lines: pa.StringArray, fields: list[pa.StringArray], names: Path, rows: Ints, prefix: Path
) -> None:
    suspects = lines_not_adding_up(lines, fields)
    if suspects is None:
        return
    shapes = shapes_of(lines, suspects, frozenset(names))
    odd = rows[shapes.lines]
    found.doubt[odd] |= shapes.doubt
    order = np.argsort(shapes.codes, kind="stable")
    ends = np.searchsorted(shapes.codes[order], np.arange(len(shapes.unknown) + 1))
    for code, unknown in enumerate(shapes.unknown):
        having = odd[order[ends[code] : ends[code + 1]]]
        found.unknown += [(".".join((*prefix, name)), having) for name in unknown]


def _spread(field: pa.StringArray, rows: Ints, count: int) -> pa.StringArray:
    """Values of some rows as values of all, null for the others."""
    if len(rows) == count:
        return field
    index = np.full(count, -1, np.int64)
    index[rows] = np.arange(len(rows))
    return compact(field.take(pa.array(index, mask=index < 0)))

"""What DuckDB's lenient JSON parser found in a block of lines, and the proof that it is all that is there.

See ``ingest.formats.json.rows`` for the argument. Everything here works on arrays whose nulls have no bytes below them
(``ingest.values.typed.compact``), because bytes are counted.
"""

from __future__ import annotations

import atexit
import json
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ingest.values.columns import Mask, bytes_of, compact, offsets_of
from ingest.values.rows import Ints

_COLON, _COMMA, _BACKSLASH = 0x3A, 0x2C, 0x5C
_BARE_WORD = r"(?i)[:,\[]\s*-?(nan|inf)"
_BARE_IN_VALUE = r"(?i)(^|[:,\[])-?(nan|inf)"
_PLAIN_START = np.zeros(256, np.bool_)
_PLAIN_START[list(b'"0123456789tf')] = True


@dataclass(frozen=True, slots=True)
class Shapes:
    """Keys of some lines: ``lines`` are their indices, ``codes`` which of ``unknown`` (sets of names) each has.

    ``doubt`` marks those with a doubled wanted key, or with something that might not be JSON.
    """

    lines: Ints
    codes: Ints
    unknown: tuple[frozenset[str], ...]
    doubt: Mask

    def met(self, wanted: Mask | None = None) -> Counter[str]:
        """How many of the wanted lines (default: those not in doubt) have each unknown field."""
        wanted = ~self.doubt if wanted is None else wanted
        found: Counter[str] = Counter()
        for names, count in zip(
            self.unknown, np.bincount(self.codes[wanted], minlength=len(self.unknown)), strict=True
        ):
            for name in names:
                found[name] += int(count)
        return found


def plain(name: str) -> bool:
    """Whether a field name can stand in a path as it is."""
    return name.isprintable() and bool(name) and not set(name) & set('"\\\\*')


def field_texts(lines: pa.StringArray, names: Sequence[str]) -> list[pa.StringArray]:
    """The compact JSON text of each field; null where a line has no such key. The first of two equal keys counts.

    duckdb.Error if a line is not even lenient JSON.
    """
    paths = ", ".join("'$.\"" + name.replace("'", "''") + "\"'" for name in names)
    picked = ", ".join(f"x[{place + 1}]" for place in range(len(names)))
    found = _query(lines, f"select {picked} from (select json_extract(l, [{paths}]) as x from t)")
    return [compact(field if field.type == pa.string() else field.cast(pa.string())) for field in found]


def valid_lines(lines: pa.StringArray) -> Mask:
    """Lines that are lenient JSON of any kind."""
    found: Mask = _query(lines, "select json_valid(l) from t")[0].fill_null(False).to_numpy(zero_copy_only=False)
    return found


def shapes_of(lines: pa.StringArray, suspects: Ints, declared: frozenset[str]) -> Shapes:
    """The keys of the suspect lines, and what is doubtful about them."""
    lines = lines.take(pa.array(suspects))
    texts = _query(lines, "select to_json(json_keys(l))::varchar from t")[0].dictionary_encode()
    doubled, unknown = [], []
    for text in texts.dictionary.to_pylist():
        keys = json.loads(text)
        names = frozenset(keys)
        doubled.append(len(names) != len(keys) and any(keys.count(name) > 1 for name in names & declared))
        unknown.append(names - declared)
    codes = texts.indices.to_numpy(zero_copy_only=False)
    return Shapes(suspects, codes, tuple(unknown), np.array(doubled, np.bool_)[codes] | _lenient(lines))


def lines_not_adding_up(lines: pa.StringArray, tokens: list[pa.StringArray]) -> Ints | None:
    """Indices of lines whose commas do not add up to the fields found; None if all lines do."""
    octets = bytes_of(lines)
    # An escaped comma in a value would be counted on one side only.
    odd = np.zeros(len(lines), np.bool_)
    if (octets == _BACKSLASH).any():
        odd = pc.match_substring(lines, "\\u00").to_numpy(zero_copy_only=False)
    fields = sum(len(array) - array.null_count for array in tokens)
    within = [int(np.count_nonzero(bytes_of(array) == _COMMA)) for array in tokens]
    commas = int(np.count_nonzero(octets == _COMMA)) - sum(within)
    if commas == fields - len(lines) and not odd.any():
        return None
    left = _count_each(lines, _COMMA)
    for array, count in zip(tokens, within, strict=True):
        left -= array.is_valid().to_numpy(zero_copy_only=False)
        if count:
            left -= _count_each(array, _COMMA)
    return np.flatnonzero(odd | (left != -1))


def _count_each(array: pa.StringArray, mark: int) -> Ints:
    """How often a byte stands in each value."""
    offsets = offsets_of(array)
    places = np.flatnonzero(bytes_of(array) == mark)
    counts: Ints = np.diff(np.searchsorted(places, offsets - offsets[0])).astype(np.int64)
    return counts


def bare_words(values: pa.StringArray) -> Mask | None:
    """Rows of an unknown field whose text is, or may hold, one of the words that only DuckDB takes."""
    texts = values.fill_null("0") if values.null_count else values
    data, starts = np.append(bytes_of(texts), np.uint8(0)), offsets_of(texts)[:-1] - offsets_of(texts)[0]
    rows = np.flatnonzero(~_PLAIN_START[data[starts]])
    rows = rows[~((data[starts[rows]] == 0x6E) & (data[starts[rows] + 1] == 0x75))]  # null
    if not len(rows):
        return None
    found = pc.match_substring_regex(texts.take(pa.array(rows)), _BARE_IN_VALUE).to_numpy(zero_copy_only=False)
    odd = np.zeros(len(values), np.bool_)
    odd[rows[found]] = True
    return odd if found.any() else None


def _lenient(lines: pa.StringArray) -> Mask:
    """Lines where something might stand that DuckDB takes and JSON does not: a trailing comma, a bare word."""
    octets = np.concatenate([bytes_of(lines), np.zeros(2, np.uint8)])
    ends = offsets_of(lines) - offsets_of(lines)[0]
    here, second, third = octets[:-2], octets[1:-1], octets[2:]
    comma = here == _COMMA
    blank = (second == 0x20) | (second == 0x09) | (second == 0x0D) | (second == 0x0A)
    closing = comma & ((second == 0x7D) | (second == 0x5D))
    closing |= (
        comma
        & blank
        & ((third == 0x7D) | (third == 0x5D) | (third == 0x20) | (third == 0x09) | (third == 0x0D) | (third == 0x0A))
    )
    odd = np.zeros(len(lines), np.bool_)
    odd[np.searchsorted(ends, np.flatnonzero(closing), side="right") - 1] = True
    letter = second | 0x20
    word = ((letter == 0x69) | ((letter == 0x6E) & (third != 0x75))) & (
        (here == _COLON) | (here == _COMMA) | (here == 0x5B) | (here == 0x2D) | (here <= 0x20)
    )
    rows = np.unique(np.searchsorted(ends, np.flatnonzero(word), side="right") - 1)
    if len(rows):
        found = pc.match_substring_regex(lines.take(pa.array(rows)), _BARE_WORD)
        odd[rows[found.to_numpy(zero_copy_only=False)]] = True
    return odd


def _query(lines: pa.StringArray, sql: str) -> list[pa.Array]:
    """Runs a query over the table ``t`` with one column ``l``; one array for each expression, in line order."""
    try:
        found = _connection(os.getpid()).from_arrow(pa.table({"l": lines})).query("t", sql).to_arrow_table()
    except UnicodeDecodeError as error:  # of its message, which may show a line cut between two bytes of a character
        raise duckdb.Error("not JSON, and no message") from error
    return [column.combine_chunks() if column.num_chunks != 1 else column.chunk(0) for column in found.columns]


@lru_cache(maxsize=1)
def _connection(process: int) -> duckdb.DuckDBPyConnection:
    """One connection for each process: a forked worker must not use that of its parent."""
    del process
    settings = {"threads": "1", "autoinstall_known_extensions": "false", "enable_external_access": "false"}
    return duckdb.connect(config=settings)


atexit.register(_connection.cache_clear)  # else its binding complains where daemon threads outlive it

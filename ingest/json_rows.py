"""JSON lines to typed rows: one fast pass that has to prove each row, and an exact pass over the rows in doubt.

The fast pass lets DuckDB cut each line into the JSON texts of the wanted fields and converts those column by column.
Its parser is more lenient than JSON (``NaN``, trailing commas), takes the first of two equal keys, and does not tell
which fields it passed over. So a block is only believed when its bytes add up. Every key costs a colon and every
further member a comma; so over a block

    colons in the lines - colons in the texts found == fields found           (no unknown and no double field)
    commas in the lines - commas in the texts found == fields found - lines   (no trailing comma)

where the left sides can only ever be larger. Where it does not add up, lines are counted one by one, the key list of
the odd ones is asked for, and lines with doubled keys, trailing commas or bare words go to the exact pass, as does
every value that the strict conversions of ``ingest.typed`` do not take. Unknown fields that turn up often are learned
and looked for like the others, so that the next block adds up.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ingest.bad_rows import BadRow, Rejects, bad_row
from ingest.exact import INTEGER_BITS, Refusal, Value, from_json
from ingest.lines import LineBlock
from ingest.rows import Ints, Rows, merge_rows
from ingest.spec import Target
from ingest.typed import Mask, bytes_of, compact, json_tokens, offsets_of

SMALL = 200  # lines below which a query costs more than the exact pass
_BRACE, _COLON, _COMMA, _BACKSLASH = 0x7B, 0x3A, 0x2C, 0x5C
MAX_LEARNED = 32
_LONG_NUMBER = r"\.[0-9]{8}|[0-9]{9}[.eE]"
_BARE_WORD = r"(?i)[:,\[]\s*-?(nan|inf)"
_BARE_IN_VALUE = r"(?i)(^|[:,\[])-?(nan|inf)"
_PLAIN_START = np.zeros(256, np.bool_)
_PLAIN_START[list(b'"0123456789tf')] = True
_EXPECTED = "one JSON object"


class JsonRows:
    """Decoder of JSON lines for one stream; ``known`` are field names that are neither stored nor counted."""

    def __init__(self, targets: Sequence[Target], known: Sequence[str], *, alias: bool = False) -> None:
        self._targets = tuple(targets)
        self._alias = alias
        self._sources = tuple(dict.fromkeys(t.source for t in self._targets))
        self._place = [self._sources.index(t.source) for t in self._targets]
        self._declared = frozenset(self._sources)
        self._known = self._declared | frozenset(known)
        self._learned: tuple[str, ...] = ()  # unknown fields met so far, looked for like the others

    def decode(self, block: LineBlock, file: str, rejects: Rejects) -> Rows:
        """Typed rows of a block; bad rows go to ``rejects``, blank lines are passed over."""
        rejects.add_all(
            bad_row(file, number, None, "line too long", "at most 16 MiB a line", head.decode("utf-8", "replace"), head)
            for number, head in block.too_long
        )
        rejects.read += len(block.too_long)
        if len(block) <= SMALL or not self._sources:
            fast, columns = np.empty(0, np.int64), [pa.nulls(0, t.column.type.arrow) for t in self._targets]
            doubtful = np.arange(len(block), dtype=np.int64)
        else:
            fast, columns, doubtful = self._fast(block, rejects)
        rejects.read += len(fast)
        exact, values = self._exact(block, doubtful, file, rejects)
        return merge_rows(block.numbers, fast, columns, exact, values, self._targets)

    # --- the fast pass -----------------------------------------------------------------------------------

    def _fast(self, block: LineBlock, rejects: Rejects) -> tuple[Ints, list[pa.Array], Ints]:
        """Indices of proven lines with their columns, and indices of the lines in doubt."""
        lines = block.array()
        octets = np.frombuffer(block.data, np.uint8)
        sound = octets[block.ends[:-1]] == _BRACE
        text = block.utf8()
        if text is not None:
            sound &= text
        tokens: list[pa.StringArray] | None = None
        kept = _lines_where(lines, sound)
        try:
            tokens = self._tokens(kept)
        except duckdb.Error:
            valid = _query(kept, "select json_valid(l) from t")[0]
            sound[sound] = valid.fill_null(False).to_numpy(zero_copy_only=False)
            kept = _lines_where(lines, sound)
            tokens = self._tokens(kept)
        doubt = np.zeros(len(kept), np.bool_)
        suspect = _suspects(kept, tokens)
        if suspect is not None:
            doubt[suspect] = self._shapes(kept.take(pa.array(suspect)), rejects)
        self._count_learned(tokens, suspect, doubt, rejects)
        columns = []
        for target, place in zip(self._targets, self._place, strict=True):
            array, odd = json_tokens(_nulled(tokens[place]), target)
            columns.append(array)
            if odd is not None:
                doubt |= odd
            if target.column.type.name in INTEGER_BITS:
                doubt |= _rounded(kept, tokens[place])
        if not doubt.any():
            fast = np.flatnonzero(sound)
            return fast, columns, np.flatnonzero(~sound)
        good = pa.array(~doubt)
        fast = np.flatnonzero(sound)[~doubt]
        whole = np.ones(len(block), np.bool_)
        whole[fast] = False
        return fast, [column.filter(good) for column in columns], np.flatnonzero(whole)

    def _tokens(self, lines: pa.StringArray) -> list[pa.StringArray]:
        """The JSON text of each source, then of each learned field; null where a line has no such key."""
        names = (*self._sources, *self._learned)
        paths = ", ".join(_sql_text('$."' + name.replace("\\", "\\\\").replace('"', '\\"') + '"') for name in names)
        picked = ", ".join(f"x[{place + 1}]" for place in range(len(names)))
        found = _query(lines, f"select {picked} from (select json_extract(l, [{paths}]) as x from t)")
        return [compact(field if field.type == pa.string() else field.cast(pa.string())) for field in found]

    def _shapes(self, lines: pa.StringArray, rejects: Rejects) -> Mask:
        """Of lines that do not add up, those in doubt; learns and counts the unknown fields of the others."""
        shapes = _query(lines, "select to_json(json_keys(l))::varchar from t")[0].dictionary_encode()
        doubled, unknown = [], []
        for text in shapes.dictionary.to_pylist():
            keys = json.loads(text)
            names = set(keys)
            doubled.append(len(names) != len(keys) and any(keys.count(name) > 1 for name in names & self._declared))
            unknown.append(names - self._declared)
        codes = shapes.indices.to_numpy(zero_copy_only=False)
        doubt: Mask = np.array(doubled, np.bool_)[codes] | _lenient(lines)
        counts = np.bincount(codes[~doubt], minlength=len(unknown)).tolist()
        met: Counter[str] = Counter()
        for names, count in zip(unknown, counts, strict=True):
            met.update(dict.fromkeys(names, count))
        rejects.ignored.update({name: n for name, n in met.items() if n and name not in self._known})
        often = [name for name, n in met.most_common() if n > len(lines) // 100 and name not in self._learned]
        self._learned = (*self._learned, *(name for name in often if _plain(name)))[:MAX_LEARNED]
        return doubt

    def _count_learned(self, tokens: list[pa.StringArray], suspect: Ints | None, doubt: Mask, rejects: Rejects) -> None:
        """Counts learned fields of lines that added up; their values must be JSON too."""
        proven = None
        if suspect is not None:
            proven = np.ones(len(doubt), np.bool_)
            proven[suspect] = False
        for name, values in zip(self._learned, tokens[len(self._sources) :], strict=False):
            odd = _bare_words(values)
            if odd is not None:
                doubt |= odd
            if name in self._known:
                continue
            counted = values if proven is None and odd is None else values.filter(pa.array(_and(proven, ~doubt)))
            if len(counted) > counted.null_count:
                rejects.ignored[name] += len(counted) - counted.null_count

    # --- the exact pass ----------------------------------------------------------------------------------

    def _exact(self, block: LineBlock, doubtful: Ints, file: str, rejects: Rejects) -> tuple[Ints, list[list[Value]]]:
        """Line by line: values of the good ones, the bad ones rejected."""
        good: list[int] = []
        values: list[list[Value]] = []
        for index in doubtful.tolist():
            line = block.line(index)
            if not line.strip():
                continue
            rejects.read += 1
            found = self._one(line, file, int(block.numbers[index]), rejects)
            if isinstance(found, BadRow):
                rejects.add_all([found])
            else:
                good.append(index)
                values.append(found)
        return np.array(good, np.int64), values

    def _one(self, line: bytes, file: str, number: int, rejects: Rejects) -> list[Value] | BadRow:
        try:
            text = line.decode("utf-8")
            record = strict_object(text)
        except UnicodeDecodeError as error:
            shown = line.decode("utf-8", "backslashreplace")
            return bad_row(file, number, None, f"not UTF-8 at byte {error.start}", "text in UTF-8", shown, line)
        except ValueError as error:
            return bad_row(file, number, None, f"not JSON ({error})", _EXPECTED, text, line)
        except RecursionError:
            return bad_row(file, number, None, "nested too deeply", _EXPECTED, text, line)
        values: list[Value] = []
        for target in self._targets:
            value = from_json(record.get(target.source), target, self._alias)
            if isinstance(value, Refusal):
                shown = json.dumps(record[target.source], default=str, ensure_ascii=False)
                return bad_row(file, number, target.column.name, value.reason, value.expected, shown, line)
            values.append(value)
        for name in record.keys() - self._known:
            rejects.ignored[name] += 1
        return values


def strict_object(text: str) -> dict[str, Any]:
    """A line as JSON allows it and no further; numbers stay exact, the last of two equal keys counts.

    ValueError if it is no JSON object.
    """
    found = json.loads(text, parse_float=Decimal, parse_int=_whole, parse_constant=_no_constant)
    if not isinstance(found, dict):
        raise ValueError("a value that is no object")
    return found


def _whole(text: str) -> int | Decimal:
    return int(text) if len(text) < 4000 else Decimal(text)


def _no_constant(text: str) -> None:
    raise ValueError(f"{text} is no JSON value")


def _suspects(lines: pa.StringArray, tokens: list[pa.StringArray]) -> Ints | None:
    """Indices of lines whose colons and commas do not add up to the fields found; None if all lines do."""
    octets = bytes_of(lines)
    # An escaped colon or comma in a value would be counted on one side only.
    odd = np.zeros(len(lines), np.bool_)
    if (octets == _BACKSLASH).any():
        odd = pc.match_substring(lines, "\\u00").to_numpy(zero_copy_only=False)
    sound = not odd.any()
    fields = sum(len(array) - array.null_count for array in tokens)
    colons, commas = (int(np.count_nonzero(octets == mark)) for mark in (_COLON, _COMMA))
    within = [[int(np.count_nonzero(bytes_of(a) == mark)) for a in tokens] for mark in (_COLON, _COMMA)]
    if sound and colons - sum(within[0]) == fields and commas - sum(within[1]) == fields - len(lines):
        return None
    found = np.zeros(len(lines), np.int64)
    for array in tokens:
        found += array.is_valid().to_numpy(zero_copy_only=False)
    for mark, expected, counts in ((_COLON, found, within[0]), (_COMMA, found - 1, within[1])):
        left = _count_each(lines, mark)
        for array, count in zip(tokens, counts, strict=True):
            if count:
                left -= _count_each(array, mark)
        odd |= left != expected
    return np.flatnonzero(odd)


def _count_each(array: pa.StringArray, mark: int) -> Ints:
    """How often a byte stands in each value."""
    offsets = offsets_of(array)
    places = np.flatnonzero(bytes_of(array) == mark)
    counts: Ints = np.diff(np.searchsorted(places, offsets - offsets[0])).astype(np.int64)
    return counts


def _bare_words(values: pa.StringArray) -> Mask | None:
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


def _nulled(tokens: pa.StringArray) -> pa.StringArray:
    """Tokens with the JSON text ``null`` as null."""
    if not (bytes_of(tokens) == 0x6E).any():
        return tokens
    null = pc.equal(tokens, "null")
    return compact(pc.if_else(null, None, tokens)) if pc.any(null).as_py() else tokens


def _and(left: Mask | None, right: Mask) -> Mask:
    return right if left is None else left & right


def _plain(name: str) -> bool:
    return name.isprintable() and '"' not in name and "\\" not in name


def _lenient(lines: pa.StringArray) -> Mask:
    """Lines where something might stand that DuckDB takes and JSON does not: a trailing comma, a bare word."""
    octets = np.concatenate([bytes_of(lines), np.zeros(2, np.uint8)])
    ends = offsets_of(lines) - offsets_of(lines)[0]
    here, second, third = octets[:-2], octets[1:-1], octets[2:]
    comma = here == _COMMA
    blank = (second == 0x20) | (second == 0x09) | (second == 0x0D)
    closing = comma & ((second == 0x7D) | (second == 0x5D))
    closing |= comma & blank & ((third == 0x7D) | (third == 0x5D) | (third == 0x20) | (third == 0x09) | (third == 0x0D))
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


def _rounded(lines: pa.StringArray, tokens: pa.StringArray) -> Mask | bool:
    """Lines with a decimal in a whole-number field that may have been rounded while it was printed."""
    if not (bytes_of(tokens) == 0x2E).any():
        return False
    decimal = pc.match_substring(tokens, ".").fill_null(False)
    found: Mask = pc.and_(decimal, pc.match_substring_regex(lines, _LONG_NUMBER)).to_numpy(zero_copy_only=False)
    return found


def _lines_where(lines: pa.BinaryArray, wanted: npt.NDArray[np.bool_]) -> pa.StringArray:
    chosen = lines if wanted.all() else lines.filter(pa.array(wanted))
    return chosen.view(pa.string())


def _query(lines: pa.StringArray, sql: str) -> list[pa.Array]:
    """Runs a query over the table ``t`` with one column ``l``; one array for each expression, in line order."""
    found = _connection(os.getpid()).from_arrow(pa.table({"l": lines})).query("t", sql).to_arrow_table()
    return [column.combine_chunks() if column.num_chunks != 1 else column.chunk(0) for column in found.columns]


@lru_cache(maxsize=1)
def _connection(process: int) -> duckdb.DuckDBPyConnection:
    """One connection for each process: a forked worker must not use that of its parent."""
    del process
    settings = {"threads": "1", "autoinstall_known_extensions": "false", "enable_external_access": "false"}
    return duckdb.connect(config=settings)


def _sql_text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"

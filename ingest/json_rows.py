"""JSON lines to typed rows: one fast pass that has to prove each row, and an exact pass over the rows in doubt.

The fast pass lets DuckDB cut each line into the JSON texts of the wanted fields and converts those column by column.
Its parser is more lenient than JSON (``NaN``, trailing commas), takes the first of two equal keys, and does not tell
which fields it passed over. So a block is only believed when its bytes add up. Every key costs a colon and every
further member a comma; so over a block

    colons in the lines - colons in the texts found == fields found           (no unknown, double or null field)
    commas in the lines - commas in the texts found == fields found - lines   (no trailing comma)

where the left sides can only ever be larger. Where it does not add up, the key list of every line is asked for, and
lines with doubled keys, trailing commas or bare words go to the exact pass, as does every value that the strict
conversions of ``ingest.typed`` do not take.
"""

from __future__ import annotations

import json
import os
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
from ingest.typed import Mask, bytes_of, json_tokens, offsets_of

SMALL = 200  # lines below which a query costs more than the exact pass
_BRACE, _COLON, _COMMA = 0x7B, 0x3A, 0x2C
_LONG_NUMBER = r"\.[0-9]{8}|[0-9]{9}[.eE]"
_BARE_WORD = r"(?i)[:,\[]\s*-?(nan|inf)"
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
        self._groups = _groups_without_clash(self._sources)
        self._transform = "select " + ", ".join(
            f"from_json(l, {_sql_text(json.dumps(dict.fromkeys(group, 'JSON')))})" for group in self._groups
        )

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
        sound &= _utf8_lines(block)
        tokens: list[pa.StringArray] | None = None
        kept = _lines_where(lines, sound)
        try:
            tokens = self._tokens(kept)
        except duckdb.Error:
            valid = _query(kept, "select json_valid(l)")[0]
            sound[sound] = valid.fill_null(False).to_numpy(zero_copy_only=False)
            kept = _lines_where(lines, sound)
            tokens = self._tokens(kept)
        doubt = np.zeros(len(kept), np.bool_)
        if not self._adds_up(kept, tokens):
            doubt |= self._shapes(kept, rejects)
        columns = []
        for target, place in zip(self._targets, self._place, strict=True):
            array, odd = json_tokens(tokens[place], target)
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
        found: dict[str, pa.StringArray] = {}
        for group, struct in zip(self._groups, _query(lines, self._transform), strict=True):
            for place, name in enumerate(group):
                field = struct.field(place)
                found[name] = field if field.type == pa.string() else field.cast(pa.string())
        return [found[name] for name in self._sources]

    def _adds_up(self, lines: pa.StringArray, tokens: list[pa.StringArray]) -> bool:
        octets = bytes_of(lines)
        if (octets == 0x5C).any() and b"\\u00" in octets.tobytes():
            return False  # an escaped colon or comma would be counted on one side only
        fields = colons = commas = 0
        for array in tokens:
            fields += len(array) - array.null_count
            inside = bytes_of(array)
            colons += int(np.count_nonzero(inside == _COLON))
            commas += int(np.count_nonzero(inside == _COMMA))
        if int(np.count_nonzero(octets == _COLON)) - colons != fields:
            return False
        return int(np.count_nonzero(octets == _COMMA)) - commas == fields - len(lines)

    def _shapes(self, lines: pa.StringArray, rejects: Rejects) -> Mask:
        """Lines in doubt by their keys and syntax; counts unknown fields of the others."""
        shapes = _query(lines, "select to_json(json_keys(l))::varchar")[0].dictionary_encode()
        doubled, unknown = [], []
        for text in shapes.dictionary.to_pylist():
            keys = json.loads(text)
            names = set(keys)
            doubled.append(len(names) != len(keys) and any(keys.count(name) > 1 for name in names & self._declared))
            unknown.append(names - self._known)
        codes = shapes.indices.to_numpy(zero_copy_only=False)
        doubt: Mask = np.array(doubled, np.bool_)[codes] | _lenient(lines)
        for code, count in enumerate(np.bincount(codes[~doubt], minlength=len(unknown))):
            for name in unknown[code]:
                rejects.ignored[name] += int(count)
        return doubt

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


def _utf8_lines(block: LineBlock) -> Mask | bool:
    """Which lines are UTF-8; True if all are."""
    try:
        block.data.decode("utf-8")
    except UnicodeDecodeError:
        return np.fromiter((_is_utf8(block.line(i)) for i in range(len(block))), np.bool_, len(block))
    return True


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _lines_where(lines: pa.BinaryArray, wanted: npt.NDArray[np.bool_]) -> pa.StringArray:
    chosen = lines if wanted.all() else lines.filter(pa.array(wanted))
    return chosen.view(pa.string())


def _query(lines: pa.StringArray, select: str) -> list[pa.Array]:
    """Runs ``select ... from`` the lines ``l``; one array for each expression, in line order."""
    table = pa.table({"l": lines})
    found = _connection(os.getpid()).from_arrow(table).query("t", f"{select} from t").to_arrow_table()
    return [column.combine_chunks() if column.num_chunks != 1 else column.chunk(0) for column in found.columns]


@lru_cache(maxsize=1)
def _connection(process: int) -> duckdb.DuckDBPyConnection:
    """One connection for each process: a forked worker must not use that of its parent."""
    del process
    settings = {"threads": "1", "autoinstall_known_extensions": "false", "enable_external_access": "false"}
    return duckdb.connect(config=settings)


def _groups_without_clash(names: Sequence[str]) -> list[list[str]]:
    """Names in groups in which no two differ by case only, as fields of one DuckDB struct must."""
    groups: list[list[str]] = []
    for name in names:
        group = next((g for g in groups if name.lower() not in {other.lower() for other in g}), None)
        if group is None:
            groups.append([name])
        else:
            group.append(name)
    return groups


def _sql_text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"

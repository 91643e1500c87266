"""JSON lines to typed rows: fast passes that have to prove each row, and an exact pass over the rows in doubt.

The compiled scanner (``ingest.formats.json.scanner``) goes first, where there is one; what it leaves in doubt goes to
the pass below, if that is much, and so do all lines where there is no scanner.

This pass lets DuckDB cut each line into the JSON texts of the wanted fields and converts those column by column.
Its parser is more lenient than JSON (``NaN``, trailing commas), takes the first of two equal keys, and does not tell
which fields it passed over. So a block is only believed when its bytes add up. An object of k fields has k - 1 commas
besides those inside its values; so over a block of objects, with one term more for each further comma,

    commas in the lines - commas in the texts found >= fields there are - lines >= fields found - lines

and if the two ends are equal there is no unknown field, no doubled one and no trailing comma in any line. Where it
does not add up, lines are counted one by one, the key list of the odd ones is asked for, and lines with doubled keys,
trailing commas or bare words go to the exact pass, as does every value that the strict conversions of
``ingest.values.typed`` do not take. Unknown fields that turn up often are learned and looked for like the others, so
that they are proven and counted at the price of one more field.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from ingest.bad_rows import MAX_VALUE, BadRow, Rejects, bad_row, too_long
from ingest.content.lines import LineBlock
from ingest.formats.json.paths import Path, all_plain, inner_texts, path_of, unknown_names, value_at
from ingest.formats.json.proof import (
    Shapes,
    bare_words,
    field_texts,
    lines_not_adding_up,
    plain,
    shapes_of,
    valid_lines,
)
from ingest.formats.json.scanner import Scanner, scanner_for
from ingest.spec import Target
from ingest.values.columns import Mask, bytes_of, compact, rows_with
from ingest.values.exact import INTEGER_BITS, exact_number, from_json
from ingest.values.refusals import Refusal, Value
from ingest.values.rows import Ints, Rows, joined, merge_rows
from ingest.values.typed import json_tokens

SMALL = 200  # lines below which a query costs more than the exact pass
FEW_IN_DOUBT = 20  # one line in so many, mostly bad ones, goes to the exact pass alone
MAX_LINES = 2**31
MAX_LEARNED = 32
MAX_DEPTH = 500  # levels of objects and arrays in each other; Python's parser stops near 1000, stack included
SAMPLE = 500  # lines that are looked at to learn the unknown fields of a feed
_BRACE = 0x7B
_STRING = re.compile(rb'"(?:[^"\\]++|\\(?:.|\Z))*+(?:"|\Z)', re.DOTALL)  # possessive: an open quote is passed once
_STEP = np.zeros(256, np.int32)
_STEP[list(b"{[")] = 1
_STEP[list(b"}]")] = -1
_DECIMAL_POINT = np.zeros(256, np.bool_)
_DECIMAL_POINT[0x2E] = True
_NEGATIVE_ZERO = r"-0[^.0-9eE]"
_LONG_NUMBER = r"\.[0-9]{8}|[0-9]{9}[.eE]|[eE]-"
_EXPECTED = "one JSON object a line, not an array or an object over several lines"


class JsonRows:
    """Decoder of JSON lines for one stream; ``known`` are field names that are neither stored nor counted."""

    def __init__(
        self,
        targets: Sequence[Target],
        known: Sequence[str],
        *,
        alias: bool = False,
        small: int | None = None,
        compiled: bool = True,
    ) -> None:
        """``small``: up to so many lines the exact pass goes alone; default: as many as it is quicker for.

        Without ``compiled`` the scanner is not used, as where there is none.
        """
        self._targets = tuple(targets)
        self._alias = alias
        self._paths = [path_of(t.source) for t in self._targets]
        self._sources = tuple(dict.fromkeys(path[0] for path in self._paths))
        inner = {name: [p[1:] for p in self._paths if p[0] == name and len(p) > 1] for name in self._sources}
        self._inner = {name: tuple(dict.fromkeys(paths)) for name, paths in inner.items() if paths}
        self._declared = frozenset(self._sources)
        self._known = self._declared | frozenset(known)
        self._few = small or 0
        self._small = (SMALL if small is None else small) if all_plain(self._paths) else MAX_LINES
        self._scanner = scanner_for(self._targets, self._paths) if compiled else None
        self._learned: tuple[str, ...] = ()  # unknown fields met so far, looked for like the others

    def decode(self, block: LineBlock, file: str, rejects: Rejects) -> Rows:
        """Typed rows of a block; bad rows go to ``rejects``, blank lines are passed over."""
        rejects.read += len(block.too_long)
        rejects.add_all(too_long(file, line) for line in block.too_long)
        fast, columns = np.empty(0, np.int64), [pa.nulls(0, t.column.type.arrow) for t in self._targets]
        doubtful = np.arange(len(block), dtype=np.int64)
        if self._scanner is not None and len(block) > self._few:
            fast, columns, doubtful = self._scanned(self._scanner, block, rejects)
        if len(doubtful) > max(self._small, len(block) // FEW_IN_DOUBT) and self._sources:
            part = block if len(doubtful) == len(block) else block.picked(doubtful)
            found, more, left = self._fast(part, rejects)
            fast, columns = joined(fast, columns, doubtful[found], more)
            doubtful = doubtful[left]
        rejects.read += len(fast)
        exact, values = self._exact(block, doubtful, file, rejects)
        return merge_rows(block.numbers, fast, columns, exact, values, self._targets)

    # --- the compiled pass -------------------------------------------------------------------------------

    def _scanned(self, scanner: Scanner, block: LineBlock, rejects: Rejects) -> tuple[Ints, list[pa.Array], Ints]:
        """Indices of accepted lines with their columns, and indices of the lines in doubt."""
        found = scanner.scan(block)
        if found.unknown:
            for index in found.late.tolist():  # counted by whoever takes them
                record = strict_object(block.line(index).decode())
                found.unknown.subtract(unknown_names(record, self._paths))
            rejects.ignored.update({n: count for n, count in found.unknown.items() if count and n not in self._known})
        doubtful = np.ones(len(block), np.bool_)
        doubtful[found.lines] = False
        return found.lines, found.columns, np.flatnonzero(doubtful)

    # --- the fast pass -----------------------------------------------------------------------------------

    def _fast(self, block: LineBlock, rejects: Rejects) -> tuple[Ints, list[pa.Array], Ints]:
        """Indices of proven lines with their columns, and indices of the lines in doubt."""
        lines = block.array()
        octets = np.frombuffer(block.data, np.uint8)
        sound = octets[block.ends[:-1]] == _BRACE
        for index in np.flatnonzero(np.diff(block.ends) > 2 * MAX_DEPTH).tolist():
            sound[index] &= not too_deep(block.line(index))
        text = block.utf8()
        if text is not None:
            sound &= text
        kept = _lines_where(lines, sound)
        try:
            tokens, suspects = self._look(kept)
        except duckdb.Error:
            sound[sound] = valid_lines(kept)
            kept = _lines_where(lines, sound)
            tokens, suspects = self._look(kept)
        if suspects is not None and len(suspects) > len(kept) // 50:
            before = self._learned
            self._learn(shapes_of(kept, suspects[:SAMPLE], self._declared))
            if self._learned != before:
                tokens, suspects = self._look(kept)
        doubt = np.zeros(len(kept), np.bool_)
        shapes = None
        if suspects is not None:
            shapes = shapes_of(kept, suspects, self._declared)
            doubt[suspects] = shapes.doubt
        extra = tokens[len(self._sources) :]
        for values in extra:
            odd = bare_words(values)
            if odd is not None:
                doubt |= odd
        texts: dict[Path, pa.StringArray] = {(name,): tokens[place] for place, name in enumerate(self._sources)}
        below = [inner_texts(texts[name,], paths, (name,)) for name, paths in self._inner.items()]
        for inner in below:
            texts |= inner.texts
            doubt |= inner.doubt
        columns = []
        for target, path in zip(self._targets, self._paths, strict=True):
            array, odd = json_tokens(_nulled(texts[path]), target)
            columns.append(array)
            if odd is not None:
                doubt |= odd
            if target.column.type.name in INTEGER_BITS:
                doubt |= _rounded(kept, texts[path])
            elif target.column.type.name in ("double", "float"):
                doubt |= _unsigned(kept, texts[path])
        for inner in below:
            rejects.ignored.update(
                {name: n for name, n in inner.count(~doubt).items() if n and name not in self._known}
            )
        if self._learned or shapes is not None:
            self._count(self._learned, extra, shapes, ~doubt, rejects)
        if not doubt.any():
            fast = np.flatnonzero(sound)
            return fast, columns, np.flatnonzero(~sound)
        good = pa.array(~doubt)
        fast = np.flatnonzero(sound)[~doubt]
        whole = np.ones(len(block), np.bool_)
        whole[fast] = False
        return fast, [column.filter(good) for column in columns], np.flatnonzero(whole)

    def _look(self, lines: pa.StringArray) -> tuple[list[pa.StringArray], Ints | None]:
        """Texts of the wanted and the learned fields, and the lines that have more than these."""
        tokens = field_texts(lines, (*self._sources, *self._learned))
        return tokens, lines_not_adding_up(lines, tokens)

    def _learn(self, shapes: Shapes) -> None:
        """Takes up the unknown fields that turn up in more than one of a hundred lines that did not add up."""
        often = [name for name, n in shapes.met().most_common() if n > len(shapes.lines) // 100]
        fresh = [name for name in often if name not in self._declared and name not in self._learned and plain(name)]
        self._learned = (*self._learned, *fresh)[:MAX_LEARNED]

    def _count(
        self, learned: Sequence[str], tokens: list[pa.StringArray], shapes: Shapes | None, good: Mask, rejects: Rejects
    ) -> None:
        """Counts the unknown fields of good lines: of lines that added up by the learned fields, else by their keys."""
        found = Counter() if shapes is None else shapes.met(good[shapes.lines])
        if shapes is not None:
            good = good.copy()
            good[shapes.lines] = False
        for name, values in zip(learned, tokens, strict=True):
            met = values if good.all() else values.filter(pa.array(good))
            found[name] += len(met) - met.null_count
        for name, count in found.items():
            if count and name not in self._known:
                rejects.ignored[name] += count

    # --- the exact pass ----------------------------------------------------------------------------------

    def _exact(self, block: LineBlock, doubtful: Ints, file: str, rejects: Rejects) -> tuple[Ints, list[list[Value]]]:
        """Line by line: values of the good ones, the bad ones rejected."""
        good: list[int] = []
        values: list[list[Value]] = []
        for index in doubtful.tolist():
            line = block.line(index)
            if not block.framed and not line.strip():
                continue
            rejects.read += 1
            found = self.one(line, file, int(block.numbers[index]), rejects)
            if isinstance(found, BadRow):
                rejects.add_all([found])
            else:
                good.append(index)
                values.append(found)
        return np.array(good, np.int64), values

    def one(self, line: bytes, file: str, number: int, rejects: Rejects) -> list[Value] | BadRow:
        """Values of one line by the exact rules, or why it is refused; ``rejects`` only counts unknown fields."""
        if too_deep(line):
            shown = line[:MAX_VALUE].decode("utf-8", "replace")
            return bad_row(file, number, None, "nested too deeply", f"at most {MAX_DEPTH} levels", shown, line)
        try:
            text = line.decode("utf-8")
            record = strict_object(text)
        except UnicodeDecodeError as error:
            shown = line.decode("utf-8", "backslashreplace")
            return bad_row(file, number, None, f"not UTF-8 (at byte {error.start})", "text in UTF-8", shown, line)
        except ValueError as error:
            return bad_row(file, number, None, f"not JSON ({error})", _EXPECTED, text, line)
        values: list[Value] = []
        for target, path in zip(self._targets, self._paths, strict=True):
            there = value_at(record, path)
            value = there if isinstance(there, Refusal) else from_json(there, target, self._alias)
            if isinstance(value, Refusal):
                shown = json.dumps(record[path[0]], default=str, ensure_ascii=False)
                return bad_row(file, number, target.column.name, value.reason, value.expected, shown, line)
            values.append(value)
        for name in unknown_names(record, self._paths):
            if name not in self._known:
                rejects.ignored[name] += 1
        return values


def too_deep(line: bytes) -> bool:
    """Whether objects and arrays lie in each other deeper than ``MAX_DEPTH``.

    Parsers have limits of their own, one of them the stack that is left; what is refused must not depend on that.
    """
    if line.count(b"{") + line.count(b"[") <= MAX_DEPTH:
        return False
    octets = np.frombuffer(_STRING.sub(b"", line), np.uint8)
    return bool(np.cumsum(_STEP[octets]).max(initial=0) > MAX_DEPTH)


def strict_object(text: str) -> dict[str, Any]:
    """A line as JSON allows it and no further; numbers stay exact, the last of two equal keys counts.

    ValueError if it is no JSON object.
    """
    found = json.loads(text, parse_float=exact_number, parse_int=_whole, parse_constant=_no_constant)
    if not isinstance(found, dict):
        raise ValueError("a value that is no object")
    return found


def _whole(text: str) -> int | Decimal:
    return int(text) if len(text) < 4000 and text != "-0" else Decimal(text)


def _no_constant(text: str) -> None:
    raise ValueError(f"{text} is no JSON value")


def _nulled(tokens: pa.StringArray) -> pa.StringArray:
    """Tokens with the JSON text ``null`` as null."""
    if not (bytes_of(tokens) == 0x6E).any():
        return tokens
    null = pc.equal(tokens, "null")
    return compact(pc.if_else(null, None, tokens)) if pc.any(null).as_py() else tokens


def _rounded(lines: pa.StringArray, tokens: pa.StringArray) -> Mask | bool:
    """Lines with a decimal in a whole-number field that may have been rounded while it was printed."""
    rows = rows_with(tokens, _DECIMAL_POINT)
    if not len(rows):
        return False
    found = np.zeros(len(lines), np.bool_)
    inexact = pc.match_substring_regex(lines.take(pa.array(rows)), _LONG_NUMBER)
    found[rows[inexact.to_numpy(zero_copy_only=False)]] = True
    return found


def _unsigned(lines: pa.StringArray, tokens: pa.StringArray) -> Mask | bool:
    """Lines with a zero that may have lost its sign while it was printed."""
    rows = np.flatnonzero(pc.equal(tokens, "0").fill_null(False).to_numpy(zero_copy_only=False))
    if not len(rows):
        return False
    found = np.zeros(len(lines), np.bool_)
    signed = pc.match_substring_regex(lines.take(pa.array(rows)), _NEGATIVE_ZERO)
    found[rows[signed.to_numpy(zero_copy_only=False)]] = True
    return found


def _lines_where(lines: pa.BinaryArray, wanted: npt.NDArray[np.bool_]) -> pa.StringArray:
    chosen = lines if wanted.all() else lines.filter(pa.array(wanted))
    return chosen.view(pa.string())

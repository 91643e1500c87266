"""JSON lines to typed rows: one pass of the compiled scanner, and an exact pass, line by line, over what it leaves.

The scanner (``ingest.formats.json.scanner``) takes only what is certain; lines *in doubt*, mostly bad ones, go to the
exact pass, which alone says what is wrong with a line. Where the scanner cannot take the fields, all lines go there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa

from sparkhaven.ingest.bad_rows import MAX_VALUE, BadRow, Rejects, bad_row, too_long
from sparkhaven.ingest.content.lines import LineBlock
from sparkhaven.ingest.decode_guard import GuardedRecords, exact_rows, guarded_rows, tried
from sparkhaven.ingest.formats.json.field_paths import is_there, path_of, tree_of, unknown_names, value_at
from sparkhaven.ingest.formats.json.scanner import Scanner, scanner_for
from sparkhaven.ingest.formats.json.source import SourceText
from sparkhaven.ingest.formats.scan.text_ids import ROOM, TextRoom
from sparkhaven.ingest.spec.stream_spec import Target
from sparkhaven.ingest.values.exact_values import from_json
from sparkhaven.ingest.values.refusals import Refusal, Value, attempted, not_utf8
from sparkhaven.ingest.values.strict_json import strict_json
from sparkhaven.ingest.values.typed_rows import Ints, TypedRows, left_over, merge_rows, no_columns
from sparkhaven.store.quarantine.reasons import Reason

SHOWN = 20  # names of fields in a message
MAX_DEPTH = 500  # levels of objects and arrays in each other; Python's parser stops near 1000, stack included
_STRING = re.compile(rb'"(?:[^"\\]++|\\(?:.|\Z))*+(?:"|\Z)', re.DOTALL)  # possessive: an open quote is passed once
_STEP = np.zeros(256, np.int32)
_STEP[list(b"{[")] = 1
_STEP[list(b"}]")] = -1
_EXPECTED = "one JSON object a line, not an array or an object over several lines"


class JsonRows:
    """Decoder of JSON lines for one stream; ``uncounted`` are field names that are neither stored nor counted."""

    def __init__(
        self,
        targets: Sequence[Target],
        uncounted: Sequence[str],
        *,
        alias: bool = False,
        compiled: bool = True,
        strict: bool = False,
        room: TextRoom = ROOM,
    ) -> None:
        """Without ``compiled`` the scanner is not used, as where there is none. ``strict``: a line with other fields
        than these is a bad row.
        """
        self._targets = tuple(targets)
        self._alias, self._strict = alias, strict
        self._paths = [path_of(t.source) for t in self._targets]
        self._tree = tree_of(self._paths)
        self._known = frozenset(path[0] for path in self._paths) | frozenset(uncounted)
        ignored = tuple(uncounted)
        self._scanner = scanner_for(self._targets, self._paths, ignored, room, strict=strict) if compiled else None

    def decode(self, block: LineBlock, file: str, rejects: Rejects) -> TypedRows:
        """Typed rows of a block; bad rows go to ``rejects``, blank lines are passed over."""
        rejects.read += len(block.too_long)
        rejects.add_all(too_long(file, line) for line in block.too_long)

        def refused(index: int, refusal: Refusal) -> BadRow:
            line = block.line(index)
            shown = line[:MAX_VALUE].decode("utf-8", "replace")
            return bad_row(file, int(block.numbers[index]), None, refusal, shown, line)

        records = GuardedRecords(len(block), block.part, partial(self._decode, file=file, rejects=rejects), refused)
        return guarded_rows(records, rejects)

    def _decode(self, block: LineBlock, file: str, rejects: Rejects) -> TypedRows:
        fast, columns = np.empty(0, np.int64), no_columns(self._targets)
        doubtful = np.arange(len(block), dtype=np.int64)
        scanner = self._scanner
        scanned = None
        if scanner is not None and len(block):
            scanned = tried(lambda: self._scanned(scanner, block, rejects), rejects)
        if scanned is not None:
            fast, columns, doubtful = scanned
        rejects.read += len(fast)
        exact, values = exact_rows(self._exact(block, doubtful, file, rejects), rejects)
        return merge_rows(block.numbers, fast, columns, exact, values, self._targets)

    def _scanned(self, scanner: Scanner, block: LineBlock, rejects: Rejects) -> tuple[Ints, list[pa.Array], Ints]:
        """Indices of accepted lines with their columns, and indices of the lines in doubt."""
        scanned = scanner.scan(block)
        if scanned.unknown or scanned.absent:
            for index in scanned.late.tolist():  # counted by whoever takes them
                record = strict_object(block.line(index).decode())
                scanned.unknown.subtract(unknown_names(record, self._tree))
                scanned.absent.subtract(n for n, path in enumerate(self._paths) if not is_there(record, path))
            for n, count in scanned.absent.items():
                if count:
                    rejects.absent[self._targets[n].column.name] += count
            rejects.ignored.update({n: count for n, count in scanned.unknown.items() if count and n not in self._known})
        return scanned.lines, scanned.columns, left_over(len(block), scanned.lines)

    def _exact(
        self, block: LineBlock, doubtful: Ints, file: str, rejects: Rejects
    ) -> Iterator[tuple[int, list[Value] | BadRow]]:
        """Line by line, without blank ones."""
        for index in doubtful.tolist():
            line = block.line(index)
            if block.framed or line.strip():
                rejects.read += 1
                yield index, self.values_of(line, file, int(block.numbers[index]), rejects)
            else:
                rejects.source.leave(1)

    def values_of(self, line: bytes, file: str, number: int, rejects: Rejects) -> list[Value] | BadRow:
        """Values of one line by the exact rules, or why it is refused; ``rejects`` counts unknown and absent fields."""
        if too_deep(line):
            shown = line[:MAX_VALUE].decode("utf-8", "replace")
            return bad_row(file, number, None, Refusal(Reason.TOO_DEEP, f"at most {MAX_DEPTH} levels"), shown, line)
        try:
            text = line.decode("utf-8")
            record = strict_object(text)
        except UnicodeDecodeError as error:
            shown = line.decode("utf-8", "backslashreplace")
            return bad_row(file, number, None, not_utf8(error), shown, line)
        except ValueError as error:
            return bad_row(file, number, None, Refusal(Reason.NOT_JSON, _EXPECTED, str(error)), text, line)
        if self._strict and (unknown := self._unknown(record)):
            why = Refusal(Reason.UNKNOWN_FIELD, _listed(t.source for t in self._targets))
            return bad_row(file, number, None, why, _listed(unknown), line)
        values: list[Value] = []
        absent: list[str] = []
        source = SourceText(text)
        for target, path in zip(self._targets, self._paths, strict=True):
            field = value_at(record, path)
            if field is None and not is_there(record, path):
                absent.append(target.column.name)
                if self._strict:
                    why = Refusal(Reason.ABSENT_FIELD, f"field {target.source}")
                    return bad_row(file, number, target.column.name, why, _listed(record), line)
            if target.as_text and not isinstance(field, str | Refusal | None):
                field = attempted(source.of, path)
            value = field if isinstance(field, Refusal) else attempted(from_json, field, target, self._alias)
            if isinstance(value, Refusal):
                shown = source.of(path[:1])
                return bad_row(file, number, target.column.name, value, shown, line)
            values.append(value)
        rejects.ignored.update(self._unknown(record))
        rejects.absent.update(absent)
        return values

    def _unknown(self, record: dict[str, Any]) -> list[str]:
        return [name for name in unknown_names(record, self._tree) if name not in self._known]


def _listed(names: Iterable[str]) -> str:
    """The first of some names."""
    first = list(islice(names, SHOWN + 1))
    return ", ".join(first[:SHOWN]) + (" and more" if len(first) > SHOWN else "")


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
    record = strict_json(text)
    if not isinstance(record, dict):
        raise ValueError("a value that is no object")
    return record

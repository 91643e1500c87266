"""JSON lines to typed rows: one pass of the compiled scanner, and an exact pass, line by line, over what it leaves.

The scanner takes only what is certain; lines *in doubt*, mostly bad ones, go to the
exact pass, which alone says what is wrong with a line. Where the scanner cannot take the fields, all lines go there.

A column may take the text of a value, byte for byte as it stands in the line. The compiled pass is strict by
construction. A line that the scanner accepts has the values that the exact pass finds in it;
every other line is in doubt. What a column's settings make of its texts is left to ``ingest.values.typed_columns``: the
scanner then cuts out the JSON texts, and conversions in whole columns may leave further lines in doubt.

Names that the scanner meets beside those that it looks for are counted.

A sample has lines as they stand: objects by the exact pass, and their fields by the names that ``from`` has for them.
"""

from __future__ import annotations

import ctypes
import json
import re
import secrets
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from sparkhaven.ingest.bad_rows import (
    MAX_VALUE,
    BadRow,
    Rejects,
    bad_row,
    exact_rows,
    guarded_rows,
    too_long,
    tried,
)
from sparkhaven.ingest.content.lines import LineBlock
from sparkhaven.ingest.formats.json.field_paths import Path, is_there, path_of, tree_of, unknown_names, value_at
from sparkhaven.ingest.formats.scan import ROOM, ScanColumns, TextRoom
from sparkhaven.ingest.spec import Target
from sparkhaven.ingest.values.exact_values import from_json
from sparkhaven.ingest.values.json_text import strict_json
from sparkhaven.ingest.values.typed_columns import json_tokens
from sparkhaven.ingest.values.typed_rows import (
    Ints,
    Refusal,
    TypedRows,
    Value,
    attempted,
    left_over,
    merge_rows,
    no_columns,
    not_utf8,
)
from sparkhaven.store.errors import listed
from sparkhaven.store.native.abi import TOKEN, NameLayout, NamesLayout
from sparkhaven.store.native.library import core
from sparkhaven.store.quarantine.rejected_rows import Reason

_BLANKS = " \t\n\r"
_DECODER = json.JSONDecoder(parse_float=str, parse_int=str)
UNKNOWN = 1024  # names beside those wanted; lines with further ones are in doubt
UNKNOWN_TEXT = 1 << 16  # bytes of them
MOST_OBJECTS = 32  # in each other
_NO_NAME = frozenset(map(chr, range(0x20))) | {'"', "\\"}  # can only be written by an escape
MAX_DEPTH = 500  # levels of objects and arrays in each other; Python's parser stops near 1000, stack included
_STRING = re.compile(rb'"(?:[^"\\]++|\\(?:.|\Z))*+(?:"|\Z)', re.DOTALL)  # possessive: an open quote is passed once
_EXPECTED = "one JSON object a line, not an array or an object over several lines"
MAX_KEYS = 100  # of objects in one field; beyond, keys are taken for data
MAX_LEVELS = 8  # of objects in each other whose fields become columns
Record = dict[str, Any]


class SourceText:
    """One line that is a JSON object, as the exact parser has found; objects are gone through once."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._members: dict[Path, dict[str, tuple[int, int]]] = {}

    def of(self, path: Path) -> str:
        """The text of the value at a path; of two fields of one name it is the last. KeyError if there is none."""
        start, stop = self._members_of(path[:-1])[path[-1]]
        return self._text[start:stop]

    def _members_of(self, path: Path) -> dict[str, tuple[int, int]]:
        """Where the values of the fields of an object begin and end."""
        if path not in self._members:
            start = self._members_of(path[:-1])[path[-1]][0] if path else self._behind_blanks(0)
            self._members[path] = self._spans(start)
        return self._members[path]

    def _spans(self, start: int) -> dict[str, tuple[int, int]]:
        spans: dict[str, tuple[int, int]] = {}
        offset = self._behind_blanks(start + 1)
        while self._text[offset] != "}":
            name, offset = _DECODER.raw_decode(self._text, offset)
            begin = self._behind_blanks(self._behind_blanks(offset) + 1)
            end = _DECODER.raw_decode(self._text, begin)[1]
            spans[name] = begin, end
            offset = self._behind_blanks(end)
            if self._text[offset] == ",":
                offset = self._behind_blanks(offset + 1)
        return spans

    def _behind_blanks(self, offset: int) -> int:
        while self._text[offset] in _BLANKS:
            offset += 1
        return offset


class Names:
    """The hash table of one scanner; ``objects`` are the paths of the objects that hold wanted fields."""

    def __init__(self, paths: Mapping[Path, int], ignored: Sequence[str], core: ctypes.CDLL) -> None:
        """The first column of each path; ``ignored`` names are known and not counted. ValueError if the scanner cannot
        look for the paths.
        """
        self.objects: list[Path] = [()]
        beside = [name for name in dict.fromkeys(ignored) if not _NO_NAME & set(name)]
        beside = [name for name in beside if all(name != path[0] for path in paths)]
        room = UNKNOWN + sum(map(len, paths)) + len(beside)
        slots = 1 << (2 * room).bit_length()
        text = UNKNOWN_TEXT + sum(len(name.encode()) for path in (*paths, beside) for name in path)
        self._list = np.zeros(room, np.dtype(NameLayout))
        self._text = np.zeros(text, np.uint8)
        self._slots = np.full(slots, -1, np.int32)
        self.layout = NamesLayout(
            list=self._list.ctypes.data,
            room=room,
            text=self._text.ctypes.data,
            text_room=text,
            slots=self._slots.ctypes.data,
            slot_mask=slots - 1,
            seed=secrets.randbits(64),
        )
        self._core = core
        for path, column in paths.items():
            self._declare(path, column)
        for name in beside:
            self._add(name, 0, -1, -1)
        self._declared = self.layout.known = int(self.layout.count)

    def met(self) -> Counter[str]:
        """How many accepted lines had each unknown field, by its dotted name, since the last call."""
        counts: Counter[str] = Counter()
        fresh = self._list[self._declared : self.layout.count]
        for index in np.flatnonzero(fresh["met"]).tolist():
            start, length, holder, count = (int(fresh[index][key]) for key in ("start", "length", "object", "met"))
            name = self._text[start : start + length].tobytes().decode()
            counts[".".join((*self.objects[holder], name))] += count
        fresh["met"] = 0
        return counts

    def _declare(self, path: Path, column: int) -> None:
        if len(path) > MOST_OBJECTS or any(_NO_NAME & set(name) for name in path):
            raise ValueError(path)
        holder = 0
        for depth in range(1, len(path)):
            inner = path[:depth]
            if inner not in self.objects:
                self._add(inner[-1], holder, -1, len(self.objects))
                self.objects.append(inner)
            holder = self.objects.index(inner)
        self._add(path[-1], holder, column, -1)

    def _add(self, name: str, holder: int, column: int, inner: int) -> None:
        text = name.encode()
        if self._core.sh_declare(ctypes.byref(self.layout), text, len(text), holder, column, inner) < 0:
            raise ValueError(f"{name} twice, or a value and an object")


@dataclass(slots=True)
class ScannedLines:
    """Accepted lines as indices with one array for each target; ``late`` are those that a conversion left in doubt.

    ``unknown`` counts the fields that no target wants, in accepted lines and late ones, by dotted name; ``absent`` the
    lines without the field of a target, by its place.
    """

    lines: Ints
    columns: list[pa.Array]
    late: Ints
    unknown: Counter[str]
    absent: Counter[int]


class Scanner:
    """The scanner for the fields of one stream; ``paths`` are where the target of the same place is found.

    ``ignored`` are names beside them that are known. ``strict``: lines with further fields, or without one of them, are
    in doubt.
    ValueError if it cannot look for these.
    """

    def __init__(
        self,
        targets: Sequence[Target],
        paths: Sequence[Path],
        ignored: Sequence[str] = (),
        room: TextRoom = ROOM,
        *,
        strict: bool = False,
    ) -> None:
        native = core()
        self._core = native
        self._columns = ScanColumns(targets, TOKEN, json_tokens, room)
        self._names = Names(self._columns.first(paths), ignored, native)
        self._first = np.full(len(self._names.objects), -1, np.int64)
        self._layout = self._columns.layout
        self._layout.names = ctypes.addressof(self._names.layout)
        self._layout.first, self._layout.strict = self._first.ctypes.data, strict

    def scan(self, block: LineBlock) -> ScannedLines:
        """Typed values of the lines that are plain; all others are in doubt."""
        lines, columns, doubt = self._columns.scan(self._core.sh_json_scan, self._layout, block)
        unknown, absent = self._names.met(), self._columns.absent()
        if doubt is None:
            return ScannedLines(lines, columns, np.empty(0, np.int64), unknown, absent)
        return ScannedLines(lines[~doubt], columns, lines[doubt], unknown, absent)


def scanner_for(
    targets: Sequence[Target],
    paths: Sequence[Path],
    ignored: Sequence[str] = (),
    room: TextRoom = ROOM,
    *,
    strict: bool = False,
) -> Scanner | None:
    """The scanner for these fields, None where there is none."""
    try:
        return Scanner(targets, paths, ignored, room, strict=strict) if targets else None
    except ValueError:
        return None


_STEP = np.zeros(256, np.int32)
_STEP[list(b"{[")] = 1
_STEP[list(b"}]")] = -1


class JsonDecoder:
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

        def decode(start: int, stop: int) -> TypedRows:
            return self._decode(block.part(start, stop), file, rejects)

        return guarded_rows(len(block), decode, refused, rejects)

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
            why = Refusal(Reason.UNKNOWN_FIELD, listed([t.source for t in self._targets]))
            return bad_row(file, number, None, why, listed(unknown), line)
        values: list[Value] = []
        absent: list[str] = []
        source = SourceText(text)
        for target, path in zip(self._targets, self._paths, strict=True):
            field = value_at(record, path)
            if field is None and not is_there(record, path):
                absent.append(target.column.name)
                if self._strict:
                    why = Refusal(Reason.ABSENT_FIELD, f"field {target.source}")
                    return bad_row(file, number, target.column.name, why, listed(list(record)), line)
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


def record_of(line: bytes) -> Record | str:
    """The object of a line, or why it is none."""
    if too_deep(line):
        return f"nested too deeply: more than {MAX_DEPTH} levels"
    try:
        return strict_object(line.decode("utf-8"))
    except UnicodeDecodeError as error:
        return f"not UTF-8 (at byte {error.start})"
    except ValueError as error:
        return f"not JSON ({error})"


def fields_of(records: Sequence[Record | None]) -> tuple[dict[str, list[Any]], dict[str, str]]:
    """Values by field, fields in the order in which they first appear, those inside objects by dotted names.

    A field is gone into if all of its values are objects or null, and their keys look like names and not like data.
    The second part has the fields that ``from`` cannot name, with the reason.
    """
    fields: dict[str, list[Any]] = {}
    unnamed: dict[str, str] = {}
    _gather(records, (), fields, unnamed)
    return fields, unnamed


def source_of(path: Path) -> str | None:
    """How ``from`` names a field; None if it cannot."""
    source = ".".join(name.replace(".", "\\.") for name in path)
    try:
        source.encode("utf-8")
    except UnicodeEncodeError:
        return None
    return source if source and path_of(source) == path else None


def _gather(
    records: Sequence[Record | None], prefix: Path, fields: dict[str, list[Any]], unnamed: dict[str, str]
) -> None:
    names = dict.fromkeys(name for record in records if record is not None for name in record)
    for name in names:
        path = (*prefix, name)
        values = [None if record is None else record.get(name) for record in records]
        source = source_of(path)
        if source is None:
            unnamed[".".join(path)] = "a stream file cannot name this field"
        elif len(path) < MAX_LEVELS and _has_fields(values):
            _gather(values, path, fields, unnamed)
        else:
            fields[source] = values


def _has_fields(values: Sequence[Any]) -> bool:
    """Whether the values are objects whose keys are names."""
    objects = [value for value in values if value is not None]
    if not objects or not all(isinstance(value, dict) for value in objects):
        return False
    keys = len({key for value in objects for key in value})
    return 0 < keys <= MAX_KEYS

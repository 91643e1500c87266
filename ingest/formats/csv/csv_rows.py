"""CSV records to typed rows: one pass of the compiled scanner, and an exact pass over what it leaves.

The fast pass is the compiled scanner (``ingest.formats.csv.spans``). Everything else is read character by character:
errors, and whole blocks of which a line is missing because it was too long. A record is bad as a whole, with all of its
lines (``ingest.formats.csv.spans``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from sparkhaven.ingest.bad_rows import MAX_VALUE, BadRow, Rejects, bad_row, exact_rows, too_long, tried
from sparkhaven.ingest.content.lines import LineBlock
from sparkhaven.ingest.formats.csv.csv_records import (
    CsvRecordError,
    Field,
    Header,
    blank,
    commented,
    read_header,
    read_record,
    repeated,
)
from sparkhaven.ingest.formats.csv.spans import (
    MAX_RECORD,
    CsvScanner,
    CutBlock,
    RecordSpan,
    Spans,
    csv_scanner,
    fault_of,
    long_bytes,
)
from sparkhaven.ingest.formats.scan import ROOM, TextRoom
from sparkhaven.ingest.sample_rows import Quoted
from sparkhaven.ingest.spec import CsvOptions, MissingColumns, Target
from sparkhaven.ingest.targets import NAMES, require_columns
from sparkhaven.ingest.values.arrow_columns import Mask
from sparkhaven.ingest.values.exact_values import from_text
from sparkhaven.ingest.values.typed_rows import (
    Ints,
    Refusal,
    TypedRows,
    Value,
    attempted,
    merge_rows,
    no_columns,
    not_utf8,
)
from sparkhaven.store.errors import SettingsError
from sparkhaven.store.quarantine.rejected_rows import Reason

EXPECTED = f"at most {MAX_RECORD >> 20} MiB a record"


@dataclass(slots=True)
class _Decoded:
    """Records of a block taken by the scanner with their columns, and those left to the exact pass."""

    fast: Ints
    columns: list[pa.Array]
    todo: list[RecordSpan]
    used: int
    stop: int  # lines before it were decoded; those from ``used`` on come again
    starts: Ints = field(default_factory=lambda: np.empty(0, np.int64))  # of the records over lines, ascending
    stops: Ints = field(default_factory=lambda: np.empty(0, np.int64))


class CsvDecoder:
    """Decoder of the CSV files of one stream. Without a header the file has the fields of ``options.names``."""

    def __init__(
        self,
        targets: Sequence[Target],
        uncounted: Sequence[str],
        options: CsvOptions,
        *,
        alias: bool = False,
        compiled: bool = True,
        missing: MissingColumns = "fail",
        strict: bool = False,
        room: TextRoom = ROOM,
    ) -> None:
        """``compiled``: with the scanner. ``strict``: records with other fields than these are bad."""
        self._missing, self._room, self._strict = missing, room, strict
        for name, mark in (("delimiter", options.delimiter), ("quote", options.quote or '"')):
            if len(mark) != 1 or not 0 < ord(mark) < 0x80 or mark in "\r\n":
                raise SettingsError(
                    f"{name} of a CSV feed is not one character",
                    where=f"feed.{name}",
                    expected="one ASCII character that ends no line",
                    found=repr(mark),
                )
        if options.delimiter == options.quote:
            raise SettingsError("delimiter and quote of a CSV feed are the same", where="feed", found=options.quote)
        self._taken = frozenset(t.source for t in targets)
        twice = repeated(options.names, self._taken)
        if twice:
            raise SettingsError("names of a CSV feed name a field twice", where="feed.names", found=", ".join(twice))
        self._targets = tuple(targets)
        self._known = self._taken | set(uncounted)
        self._options = options
        self._alias = alias
        self._null, self._unquoted_null = frozenset(options.null), not options.quoted_null
        self._spans = Spans(options)
        self._held: tuple[LineBlock, Ints, Ints] = (LineBlock.empty(), np.empty(0, np.int64), np.empty(0, np.int64))
        self._scanner: CsvScanner | None = None
        self._compiled = compiled  # whether a scanner may be made, once there is a header
        self.lines_left = 0  # of the block decoded last: lines that are no record, or not the first of one
        self._header: Header | None = None if options.header else Header(options.names)
        self._head_lines = options.skip_lines  # of a file, with its header once that is known
        if self._header is not None:
            require_columns(self._targets, options.names, "feed.names", missing, source=NAMES)

    def decode(self, block: LineBlock, file: str, rejects: Rejects, *, last: bool = True) -> tuple[TypedRows, int]:
        """Typed rows of a block, and how many of its lines were used.

        Fewer than all when a record goes on beyond the block and ``last`` is not set; the rest belongs before the
        next block. ``lines_left`` tells how many of the lines are neither rows nor rejected.
        """
        inside, self.lines_left = self._spans.open, 0
        first, ended = self._spans.leave(block)
        if ended is not None:
            self.lines_left += int(block.numbers[first - 1]) - ended.number
            rejects.read += 1
            shown = ended.head[:MAX_VALUE].decode("utf-8", "replace")
            row = bad_row(file, ended.number, None, Refusal(Reason.RECORD_TOO_LONG, EXPECTED), shown, ended.head)
            rejects.add_all([replace(row, size=ended.size)])
        hidden = 0 if inside is None else np.inf if ended is None else int(block.numbers[first - 1])
        heads = self.start(block, file)
        self.lines_left += max(heads - first, 0)
        first = max(first, heads)
        header = self._header or Header(())
        rejects.header = header.names
        spans = deepcopy(self._spans)
        refused = self._refused(header) is not None
        decoded = None if refused else tried(lambda: self._scanned(block, first, header, last), rejects)
        if decoded is None:
            self._spans = spans
            decoded = self._unscanned(block, first, last, hidden, file, rejects)
        self._held = block, decoded.starts, decoded.stops
        rejects.read += len(decoded.fast)
        exact, values = exact_rows(self._exact(block, decoded.todo, header, file, rejects), rejects)
        self.lines_left += self._left(block, first, header, decoded)
        if len(decoded.fast):
            self._count(header, len(decoded.fast), rejects)
        return merge_rows(block.numbers, decoded.fast, decoded.columns, exact, values, self._targets), decoded.used

    def _refused(self, header: Header) -> tuple[Refusal, str] | None:
        """Why no record of such a header is taken, and what is shown for it.

        A file that lacks a column was refused before its first record. A record that comes again alone is refused here.
        """
        if not self._strict and self._missing != "fail":
            return None
        unknown = [name for name in header.names if name not in self._known]
        if unknown and self._strict:
            return Refusal(Reason.UNKNOWN_FIELD, ", ".join(sorted(self._taken))), ", ".join(unknown)
        absent = [target.source for target in self._targets if target.source not in header.names]
        if absent:
            return Refusal(Reason.ABSENT_FIELD, f"field {', '.join(absent)}"), ", ".join(header.names)
        return None

    def _count(self, header: Header, records: int, rejects: Rejects) -> None:
        """Counts the fields that no column takes, and the columns without a field, of some records."""
        for name in header.names:
            if name not in self._known:
                rejects.ignored[name] += records
        for target in self._targets:
            if target.source not in header.names:
                rejects.absent[target.column.name] += records

    def decode_all(
        self, blocks: Callable[[], Iterable[LineBlock]], file: str, rejects: Rejects
    ) -> Iterator[tuple[LineBlock, TypedRows]]:
        """Typed rows of a file, each with the block that their records are in.

        ``blocks`` gives its lines, and a second time for a file with a quote that nothing closes.
        """
        first: int | None = 1
        while first is not None:
            rest: LineBlock | None = None
            for whole in blocks():
                block = whole.after(first - 1) if first > 1 else whole
                block = block if rest is None else rest.before(block)
                rows, used = self.decode(block, file, rejects, last=False)
                rejects.source.leave(self.lines_left)
                yield block, rows
                rest = block.rest(used) if used < len(block) else None
            if rest is not None:
                rows, _ = self.decode(rest, file, rejects, last=True)
                rejects.source.leave(self.lines_left)
                yield rest, rows
            first = self.unclosed()

    def unclosed(self) -> int | None:
        """To be called at the end of a file: the number of a line whose quote nothing closes and that was not decoded.

        From it on the file has to be read again.
        """
        long, self._spans.open = self._spans.open, None
        if long is None:
            return None
        self._spans.alone = long.number
        return long.number

    def record_of(self, number: int) -> bytes:
        """The record of the block decoded last that begins at a physical line, without its line end."""
        block, starts, stops = self._held
        line = int(np.searchsorted(block.numbers, number))
        index = int(np.searchsorted(starts, line))
        if index < len(starts) and starts[index] == line:
            return block.lines(line, int(stops[index]))
        return block.line(line)

    def records_of(self, numbers: Ints) -> LineBlock:
        """The records of the block decoded last that begin at these physical lines, whole."""
        block, starts, stops = self._held
        lines = np.searchsorted(block.numbers, numbers)
        wanted = np.zeros(len(block), np.bool_)
        wanted[lines] = True
        chosen = np.isin(starts, lines)
        for start, stop in zip(starts[chosen].tolist(), stops[chosen].tolist(), strict=True):
            wanted[start:stop] = True
        return block.where(wanted)

    def start(self, block: LineBlock, file: str) -> int:
        """The first line of a block that may be a record; the header is taken before.

        FeedError for a header that cannot be read, or lacks columns.
        """
        if block.framed:
            return 0
        first = int(np.searchsorted(block.numbers, self._head_lines, side="right"))
        if self._header is not None:
            return first
        passed = commented(block, self._options)
        while first < len(block) and (passed[first] or blank(block, first)):
            first += 1
        if first == len(block):
            return first
        where = f"{file} line {block.numbers[first]}"
        self._header = read_header(block.line(first), self._options, where, self._taken)
        require_columns(self._targets, self._header.names, where, self._missing, source="header of a CSV file")
        self._head_lines = int(block.numbers[first])
        return first + 1

    def _left(self, block: LineBlock, first: int, header: Header, decoded: _Decoded) -> int:
        """Of the lines that were decoded, those that are blank, a comment, or the further lines of a record."""
        if block.framed:
            return 0
        starts, stops = decoded.starts, decoded.stops
        further = int((block.numbers[stops - 1] - block.numbers[starts]).sum())
        records = len(decoded.fast) + len(decoded.todo)
        if decoded.stop - first == records + int((stops - starts - 1).sum()):
            return further  # each line begins a record, or is inside of one
        passed = commented(block, self._options) if header.one_field else self._passed(block)
        for start, stop in zip(starts.tolist(), stops.tolist(), strict=True):
            passed[start:stop] = False
        passed[[span.start for span in decoded.todo]] = False
        return further + int(np.count_nonzero(passed[first : decoded.stop]))

    def _passed(self, block: LineBlock) -> Mask:
        """Which lines are blank or comments."""
        passed = commented(block, self._options)
        sizes, octets = np.diff(block.ends), np.frombuffer(block.data, np.uint8)
        ending = np.isin(octets[block.ends[:-1]], (0x0A, 0x0D)) if len(octets) else np.zeros(len(block), np.bool_)
        passed |= ending & (sizes == 1)
        for index in np.flatnonzero(ending & (sizes > 1)).tolist():
            passed[index] |= not block.line(index)
        return passed

    def _reject_long_lines(
        self, block: LineBlock, records: Iterable[tuple[int, float]], file: str, rejects: Rejects
    ) -> None:
        """Lines that were not read whole, but for those inside one of the records, which is bad anyway."""
        for line in block.too_long:
            if any(first < line.number < last for first, last in records):
                continue
            if line.number <= self._options.skip_lines:
                self.lines_left += 1
            else:
                rejects.read += 1
                rejects.add_all([too_long(file, line)])

    def _unscanned(
        self, block: LineBlock, first: int, last: bool, hidden: float, file: str, rejects: Rejects
    ) -> _Decoded:
        """All records for the exact pass. Lines before the number ``hidden`` are no records."""
        begin = ~commented(block, self._options)
        begin[:first] = False
        cut = self._spans.cut(block, np.flatnonzero(begin), last)
        if block.too_long:
            self._reject_long_lines(block, [(0, hidden), *cut.numbers(block)], file, rejects)
        starts, stops = (np.array([getattr(s, end) for s in cut.spans], np.int64) for end in ("start", "stop"))
        nothing = np.empty(0, np.int64), no_columns(self._targets)
        return _Decoded(*nothing, cut.spans, cut.used, cut.stop, starts, stops)

    def _scanned(self, block: LineBlock, first: int, header: Header, last: bool) -> _Decoded | None:
        """By the scanner; None where there is none, or lines are missing."""
        if self._compiled and header.names:
            self._scanner, self._compiled = csv_scanner(self._targets, header.names, self._options, self._room), False
        whole = not block.too_long and (block.framed or block.chosen or _is_whole(block))
        if self._scanner is None or not len(block) or not whole:
            return None
        cut = self._spans.resume(block, last)
        first = max([first, *(span.stop for span in cut.spans)])
        if cut.stop < len(block):  # one record, beyond the block
            return _Decoded(np.empty(0, np.int64), no_columns(self._targets), [], cut.used, cut.stop)
        spans = self._spans
        scanned = self._scanner.scan(block, first, last=last, longest=spans.longest, alone=spans.alone_in(block))
        if scanned.open is not None:
            spans.leave_open(block, scanned.open, cut)
        over_lines = _over_lines(cut, scanned.starts, scanned.stops, scanned.odd, scanned.odd_stops)
        pairs = zip(scanned.odd.tolist(), scanned.odd_stops.tolist(), strict=True)
        todo = [*cut.spans, *(RecordSpan(start, stop, fault_of(block, start, stop)) for start, stop in pairs)]
        return _Decoded(scanned.starts, scanned.columns, todo, cut.used, cut.stop, *over_lines)

    def _exact(
        self, block: LineBlock, records: list[RecordSpan], header: Header, file: str, rejects: Rejects
    ) -> Iterator[tuple[int, list[Value] | BadRow]]:
        """Record by record, without blank lines that are none."""
        for span in records:
            raw, number = block.lines(span.start, span.stop), int(block.numbers[span.start])
            if not (raw or block.framed or header.one_field):
                self.lines_left += 1
                continue
            rejects.read += 1
            if span.fault is None:
                outcome = attempted(self.values_of, raw, header, file, number, rejects)
                if isinstance(outcome, Refusal):  # of the record as a whole
                    outcome = bad_row(file, number, None, outcome, raw[:MAX_VALUE].decode("utf-8", "replace"), raw)
            else:
                shown = raw[:MAX_VALUE].decode("utf-8", "replace")
                size = len(raw) + long_bytes(block, number, int(block.numbers[span.stop - 1]))
                outcome = replace(bad_row(file, number, None, Refusal(span.fault, EXPECTED), shown, raw), size=size)
            yield span.start, outcome

    def values_of(self, raw: bytes, header: Header, file: str, number: int, rejects: Rejects) -> list[Value] | BadRow:
        """Values of one record by the exact rules, or why it is refused; ``rejects`` only counts fields."""
        expected = f"{len(header.names)} fields"
        try:
            text = raw.decode("utf-8")
            fields = read_record(text, self._options.delimiter, self._options.quote)
        except UnicodeDecodeError as error:
            shown = raw.decode("utf-8", "backslashreplace")
            return bad_row(file, number, None, not_utf8(error), shown, raw)
        except CsvRecordError as error:
            return bad_row(file, number, None, Refusal(error.reason, expected), text, raw)
        if self._options.trailing_delimiter and len(fields) == len(header.names) + 1 and fields[-1] == ("", False):
            fields.pop()
        if len(fields) != len(header.names):
            return bad_row(file, number, None, Refusal(Reason.FIELD_COUNT, expected, str(len(fields))), text, raw)
        if (refused := self._refused(header)) is not None:
            return bad_row(file, number, None, refused[0], refused[1], raw)
        record = dict(zip(header.names, fields, strict=True))
        values: list[Value] = []
        for target in self._targets:
            field, quoted = record.get(target.source, ("", False))
            absent = target.source not in record or (field in self._null and not (quoted and self._unquoted_null))
            value = None if absent else attempted(from_text, field, target, self._alias)
            if isinstance(value, Refusal):
                return bad_row(file, number, target.column.name, value, field, raw)
            values.append(value)
        self._count(header, 1, rejects)
        return values


def _is_whole(block: LineBlock) -> bool:
    """Whether no line is missing between the first and the last."""
    return len(block) == 0 or int(block.numbers[-1] - block.numbers[0]) == len(block) - 1


def _over_lines(cut: CutBlock, *lists: Ints) -> tuple[Ints, Ints]:
    """First lines and lines behind, of all records over lines among spans and pairs of lists."""
    starts = np.concatenate([np.array([s.start for s in cut.spans], np.int64), *lists[::2]])
    stops = np.concatenate([np.array([s.stop for s in cut.spans], np.int64), *lists[1::2]])
    over = np.flatnonzero(stops - starts > 1)
    over = over[np.argsort(starts[over])]
    return starts[over], stops[over]


class CsvRecords(CsvDecoder):
    """A decoder without columns, which keeps the fields of each record that is one: (number, text by name)."""

    def __init__(self, options: CsvOptions) -> None:
        super().__init__((), (), options, compiled=False)
        self.records: list[tuple[int, dict[str, str]]] = []

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the fields, empty before there is a header."""
        return () if self._header is None else self._header.names

    def values_of(self, raw: bytes, header: Header, file: str, number: int, rejects: Rejects) -> list[Value] | BadRow:
        """No values; the record is kept if it has as many fields as the header."""
        outcome = super().values_of(raw, header, file, number, rejects)
        if not isinstance(outcome, BadRow):
            fields = read_record(raw.decode("utf-8"), self._options.delimiter, self._options.quote)
            texts = map(_text, fields)
            self.records.append((number, dict(zip(header.names, texts, strict=False))))
        return outcome


def _text(field: Field) -> str:
    text, quoted = field
    return Quoted(text) if quoted else text

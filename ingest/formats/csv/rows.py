"""CSV records to typed rows: plain records by PyArrow, all others by a small exact reader.

A record is plain if it stands on one physical line, and each field that begins with a quote ends with its closing one,
with doubled ones between; in other fields quotes are taken as they stand. Everything else is read character by
character: records whose quoted fields span lines, and errors.
A record is bad as a whole, with all of its lines (``ingest.formats.csv.spans``).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.csv

from ingest.bad_rows import MAX_VALUE, BadRow, Rejects, bad_row, too_long
from ingest.content.lines import BOM, LineBlock
from ingest.declared import require_columns
from ingest.formats.csv.records import (
    Header,
    commented,
    ends_with_delimiter,
    read_header,
    read_record,
    repeated,
    sort_lines,
)
from ingest.formats.csv.spans import MAX_RECORD, TOO_LONG, Span, Spans, long_bytes
from ingest.options.formats import CsvOptions, MissingColumns
from ingest.spec import Target
from ingest.values.columns import compact
from ingest.values.exact import from_text
from ingest.values.refusals import Refusal, Value
from ingest.values.rows import Ints, Rows, merge_rows
from ingest.values.typed import csv_texts
from store.errors import SettingsError

EXPECTED = f"at most {MAX_RECORD >> 20} MiB a record"


class CsvRows:
    """Decoder of the CSV files of one stream. Without a header the file has the fields of ``options.names``."""

    def __init__(
        self,
        targets: Sequence[Target],
        known: Sequence[str],
        options: CsvOptions,
        *,
        alias: bool = False,
        exact: bool = False,
        missing: MissingColumns = "fail",
    ) -> None:
        self._only_exact, self._missing = exact, missing
        for name, mark in (("delimiter", options.delimiter), ("quote", options.quote or '"')):
            if len(mark) != 1 or (not 0x20 <= ord(mark) < 0x7F and mark != "\t"):
                raise SettingsError(
                    f"{name} of a CSV feed is not one character",
                    where=f"feed.{name}",
                    expected="one ASCII character or a tab",
                    found=repr(mark),
                )
        if options.delimiter == options.quote:
            raise SettingsError("delimiter and quote of a CSV feed are the same", where="feed", found=options.quote)
        twice = repeated(options.names)
        if twice:
            raise SettingsError("names of a CSV feed name a field twice", where="feed.names", found=", ".join(twice))
        self._targets = tuple(targets)
        self._known = {t.source for t in targets} | set(known)
        self._options = options
        self._alias = alias
        self._null, self._unquoted_null = frozenset(options.null), not options.quoted_null
        self._spans = Spans(options)
        self._held: tuple[LineBlock, dict[int, Span]] = (LineBlock.empty(), {})
        self._header: Header | None = None if options.header else Header(options.names)
        self._head_lines = options.skip_lines  # of a file, with its header once that is known
        if self._header is not None:
            source = "names of a CSV feed"
            require_columns(self._targets, options.names, "feed.names", missing, source=source, kind=SettingsError)

    def decode(self, block: LineBlock, file: str, rejects: Rejects, *, last: bool = True) -> tuple[Rows, int]:
        """Typed rows of a block, and how many of its lines were used.

        Fewer than all when a record goes on beyond the block and ``last`` is not set; the rest belongs before the
        next block.
        """
        inside = self._spans.open
        first, done = self._spans.leave(block)
        if done is not None:
            rejects.read += 1
            shown = done.head[:MAX_VALUE].decode("utf-8", "replace")
            rejects.add_all([bad_row(file, done.number, None, TOO_LONG, EXPECTED, shown, done.head, size=done.size)])
        hidden = 0 if inside is None else np.inf if done is None else int(block.numbers[first - 1])
        first = max(first, self.start(block, file))
        header = self._header or Header(())
        rejects.header = header.names
        plain, odd = sort_lines(block, first, self._options)
        found = self._spans.cut(block, odd, last)
        plain = plain[~found.inner(len(block))[plain]]
        self._held = block, {int(block.numbers[s.start]): s for s in found.spans}
        if block.too_long:
            self._reject_long_lines(block, [(0, hidden), *found.numbers(block)], file, rejects)
        fast, columns, doubtful = self._fast(block, plain, header)
        rejects.read += len(fast)
        todo = sorted([*found.spans, *(Span(i, i + 1) for i in doubtful.tolist())], key=lambda span: span.start)
        exact, values = self._exact(block, todo, header, file, rejects)
        for name in header.names:
            if name not in self._known and len(fast):
                rejects.ignored[name] += len(fast)
        return merge_rows(block.numbers, fast, columns, exact, values, self._targets), found.used

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
        block, spans = self._held
        span = spans.get(number)
        return block.line_of(number) if span is None else block.lines(span.start, span.stop)

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
        while first < len(block) and passed[first]:
            first += 1
        if first == len(block):
            return first
        where = f"{file} line {block.numbers[first]}"
        self._header = read_header(block.line(first), self._options, where)
        require_columns(self._targets, self._header.names, where, self._missing, source="header of a CSV file")
        self._head_lines = int(block.numbers[first])
        return first + 1

    def _reject_long_lines(
        self, block: LineBlock, records: Iterable[tuple[int, float]], file: str, rejects: Rejects
    ) -> None:
        """Lines that were not read whole, but for those inside one of the records, which is bad anyway."""
        for line in block.too_long:
            within = any(first < line.number < last for first, last in records)
            if not within and line.number > self._options.skip_lines:
                rejects.read += 1
                rejects.add_all([too_long(file, line)])

    def _fast(self, block: LineBlock, plain: Ints, header: Header) -> tuple[Ints, list[pa.Array], Ints]:
        """Plain records with their columns, and those in doubt."""
        nothing = [pa.nulls(0, t.column.type.arrow) for t in self._targets]
        if not len(plain) or not header.names or self._only_exact:
            return np.empty(0, np.int64), nothing, plain
        parsed = plain
        if self._options.trailing_delimiter:
            parsed = plain[ends_with_delimiter(block, plain, self._options)]
        while len(parsed) and block.data.startswith(BOM, int(block.ends[parsed[0]])):
            parsed = parsed[1:]  # PyArrow would take it for the mark of a file
        table, kept = self._parse(block, parsed, header) if len(parsed) else (None, parsed)
        if table is None:
            return np.empty(0, np.int64), nothing, plain
        doubt = np.zeros(len(kept), np.bool_)
        columns = []
        for target in self._targets:
            if target.source not in header.names:
                columns.append(pa.nulls(len(kept), target.column.type.arrow))
                continue
            array, odd = csv_texts(compact(table[target.source]), target)
            columns.append(array)
            if odd is not None:
                doubt |= odd
        if doubt.any():
            good = pa.array(~doubt)
            columns = [column.filter(good) for column in columns]
            kept = kept[~doubt]
        rest = plain if not len(kept) else plain[~np.isin(plain, kept, assume_unique=True)]
        return kept, columns, rest

    def _parse(self, block: LineBlock, plain: Ints, header: Header) -> tuple[dict[str, pa.StringArray] | None, Ints]:
        """Texts of the wanted fields of plain lines with the right number of fields; None if PyArrow cuts otherwise."""
        lines = block.array()
        chosen = lines if len(plain) == len(block) else lines.take(pa.array(plain))
        offsets = np.frombuffer(chosen.buffers()[1], np.int32)[: len(chosen) + 1]
        data = pa.py_buffer(memoryview(chosen.buffers()[2])[offsets[0] : offsets[-1]])
        wrong: list[int] = []

        def note(row: pa.csv.InvalidRow) -> str:
            wrong.append(row.number or 0)
            return "skip"

        more = self._options.trailing_delimiter
        names = [f"f{place}" for place in range(len(header.names) + more)]
        wanted = {t.source: names[header.names.index(t.source)] for t in self._targets if t.source in header.names}
        if not wanted:
            return None, plain
        try:
            table = pa.csv.read_csv(
                pa.BufferReader(data),
                pa.csv.ReadOptions(use_threads=False, block_size=max(data.size, 1) + 1, column_names=names),
                pa.csv.ParseOptions(
                    delimiter=self._options.delimiter,
                    quote_char=self._options.quote or False,
                    ignore_empty_lines=False,
                    invalid_row_handler=note,
                ),
                pa.csv.ConvertOptions(
                    check_utf8=False,
                    column_types={name: pa.string() for name in wanted.values()},
                    include_columns=list(wanted.values()),
                    null_values=list(self._options.null),
                    strings_can_be_null=True,
                    quoted_strings_can_be_null=self._options.quoted_null,
                ),
            )
        except pa.ArrowInvalid:
            return None, plain
        if table.num_rows + len(wrong) != len(plain):
            return None, plain
        kept = np.delete(plain, np.array(wrong, np.int64) - 1) if wrong else plain
        return {source: _one_chunk(table[name]) for source, name in wanted.items()}, kept

    def _exact(
        self, block: LineBlock, records: list[Span], header: Header, file: str, rejects: Rejects
    ) -> tuple[Ints, list[list[Value]]]:
        good: list[int] = []
        values: list[list[Value]] = []
        for span in records:
            raw, number = block.lines(span.start, span.stop), int(block.numbers[span.start])
            if not raw and not block.framed:
                continue
            rejects.read += 1
            if span.fault is None:
                found = self.one(raw, header, file, number, rejects)
            else:
                shown = raw[:MAX_VALUE].decode("utf-8", "replace")
                size = len(raw) + long_bytes(block, number, int(block.numbers[span.stop - 1]))
                found = bad_row(file, number, None, span.fault, EXPECTED, shown, raw, size=size)
            if isinstance(found, BadRow):
                rejects.add_all([found])
            else:
                good.append(span.start)
                values.append(found)
        return np.array(good, np.int64), values

    def one(self, raw: bytes, header: Header, file: str, number: int, rejects: Rejects) -> list[Value] | BadRow:
        """Values of one record by the exact rules, or why it is refused; ``rejects`` only counts unknown fields."""
        expected = f"{len(header.names)} fields"
        try:
            text = raw.decode("utf-8")
            fields = read_record(text, self._options.delimiter, self._options.quote)
        except UnicodeDecodeError as error:
            shown = raw.decode("utf-8", "backslashreplace")
            return bad_row(file, number, None, f"not UTF-8 (at byte {error.start})", "text in UTF-8", shown, raw)
        except ValueError as error:
            return bad_row(file, number, None, str(error), expected, text, raw)
        if self._options.trailing_delimiter and len(fields) == len(header.names) + 1 and fields[-1] == ("", False):
            fields.pop()
        if len(fields) != len(header.names):
            return bad_row(file, number, None, f"wrong number of fields ({len(fields)})", expected, text, raw)
        record = dict(zip(header.names, fields, strict=True))
        values: list[Value] = []
        for target in self._targets:
            field, quoted = record.get(target.source, ("", False))
            absent = target.source not in record or (field in self._null and not (quoted and self._unquoted_null))
            value = None if absent else from_text(field, target, self._alias)
            if isinstance(value, Refusal):
                return bad_row(file, number, target.column.name, value.reason, value.expected, field, raw)
            values.append(value)
        for name in header.names:
            if name not in self._known:
                rejects.ignored[name] += 1
        return values


def _one_chunk(column: pa.ChunkedArray) -> pa.StringArray:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()

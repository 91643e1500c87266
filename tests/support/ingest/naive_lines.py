"""Text files read the slow way, whole and byte by byte: what lines, and what CSV records, a file has."""

from __future__ import annotations

from dataclasses import dataclass, field

from sparkhaven.ingest.spec import CsvOptions

BOM = b"\xef\xbb\xbf"


@dataclass
class Found:
    """Rows by the line where they begin; bad rows as line, reason, payload and size."""

    rows: list[tuple[int, tuple[str | None, ...]]] = field(default_factory=list)
    bad: list[tuple[int, str, bytes, int]] = field(default_factory=list)


def lines_of(content: bytes) -> list[bytes]:
    """Lines with their line feeds."""
    lines = [line + b"\n" for line in content.removeprefix(BOM).split(b"\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


def text_length(line: bytes) -> int:
    """Bytes of a line without its line feed."""
    return len(line) - line.endswith(b"\n")


def csv_records(content: bytes, options: CsvOptions, width: int, max_line: int, max_record: int) -> Found:
    """Records of ``width`` fields in a file with a header, or without one, as texts."""
    found, lines = Found(), lines_of(content)
    header, at = options.header, options.skip_lines
    while at < len(lines):
        line, number = lines[at], at + 1
        at += 1
        if text_length(line) > max_line:
            found.bad.append((number, "line too long", line[: text_length(line)], text_length(line)))
            continue
        if options.comment and line.startswith(options.comment.encode()):
            continue
        if header:
            header = False
            continue
        if not line.rstrip(b"\r\n") and width > 1:
            continue
        held, long, next_line = line, 0, at
        while _fields(held, options)[2] and next_line < len(lines):
            more = lines[next_line]
            next_line += 1
            if text_length(more) > max_line:
                long += len(more)
            else:
                held += more
        closed = not _fields(held, options)[2]
        fault = "record too long" if len(held) > max_record and closed and next_line > at else ""
        if closed:
            at = next_line
        else:
            held, long = line, 0
        record = held.rstrip(b"\r\n")
        fault = fault or ("record with a line that is too long" if long else "")
        fields, fault = _record(record, options, width, fault)
        if fault:
            found.bad.append((number, fault, record, len(record) + long))
        else:
            found.rows.append((number, fields))
    return found


def _record(record: bytes, options: CsvOptions, width: int, fault: str) -> tuple[tuple[str | None, ...], str]:
    if fault:
        return (), fault
    try:
        record.decode()
    except UnicodeDecodeError as error:
        return (), f"not UTF-8 (at byte {error.start})"
    fields, text_behind, is_open = _fields(record, options)
    if text_behind:
        return (), "text after a closing quote"
    if is_open:
        return (), "a quoted field does not end"
    if len(fields) != width:
        return (), f"wrong number of fields ({len(fields)})"
    return tuple(text.decode() if text or quoted else None for text, quoted in fields), ""


def _fields(record: bytes, options: CsvOptions) -> tuple[list[tuple[bytes, bool]], bool, bool]:
    """Fields; whether text follows a closing quote in the first field where anything is wrong; whether one is open."""
    quote, delimiter = options.quote.encode(), options.delimiter.encode()
    fields: list[tuple[bytes, bool]] = []
    text, quoted, inside, behind, begins = b"", False, False, False, True
    at = 0
    while at < len(record):
        byte = record[at : at + 1]
        at += 1
        if inside:
            if byte != quote:
                text += byte
            elif record[at : at + 1] == quote:
                text, at = text + quote, at + 1
            else:
                inside = False
        elif begins and byte == quote:
            quoted = inside = True
        elif byte == delimiter:
            fields.append((text, quoted))
            text, quoted, begins = b"", False, True
            continue
        elif quoted:
            behind = True
        else:
            text += byte
        begins = False
    return [*fields, (text, quoted)], behind and not (inside and not fields), inside

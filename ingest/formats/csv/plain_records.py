"""Plain CSV records to typed columns by PyArrow, which cuts them as the exact reader does, or not at all.

A record is plain if it stands on one physical line, and each field that begins with a quote ends with its closing one,
with doubled ones between; in other fields quotes are taken as they stand
(``ingest.formats.csv.csv_records.sort_lines``).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.csv

from sparkhaven.ingest.content.lines import BOM, LineBlock
from sparkhaven.ingest.formats.csv.csv_records import ends_with_delimiter
from sparkhaven.ingest.spec.payload_formats import CsvOptions
from sparkhaven.ingest.spec.stream_spec import Target
from sparkhaven.ingest.values.arrow_columns import compact
from sparkhaven.ingest.values.typed_columns import csv_texts
from sparkhaven.ingest.values.typed_rows import Ints, no_columns


def plain_records(
    block: LineBlock, plain: Ints, names: Sequence[str], targets: Sequence[Target], options: CsvOptions
) -> tuple[Ints, list[pa.Array], Ints]:
    """Plain records of fields with these names, with their columns, and those in doubt."""
    nothing = np.empty(0, np.int64), no_columns(targets), plain
    if not len(plain) or not names:
        return nothing
    parsed = plain
    if options.trailing_delimiter:
        parsed = plain[ends_with_delimiter(block, plain, options)]
    while len(parsed) and block.data.startswith(BOM, int(block.ends[parsed[0]])):
        parsed = parsed[1:]  # PyArrow would take it for the mark of a file
    table, kept = _parse(block, parsed, names, targets, options) if len(parsed) else (None, parsed)
    if table is None:
        return nothing
    doubt = np.zeros(len(kept), np.bool_)
    columns = []
    for target in targets:
        if target.source not in names:
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


def _parse(
    block: LineBlock, plain: Ints, fields: Sequence[str], targets: Sequence[Target], options: CsvOptions
) -> tuple[dict[str, pa.StringArray] | None, Ints]:
    """Texts of the wanted fields of plain lines with the right number of fields; None if PyArrow cuts otherwise."""
    lines = block.array()
    chosen = lines if len(plain) == len(block) else lines.take(pa.array(plain))
    offsets = np.frombuffer(chosen.buffers()[1], np.int32)[: len(chosen) + 1]
    data = pa.py_buffer(memoryview(chosen.buffers()[2])[offsets[0] : offsets[-1]])
    wrong: list[int] = []

    def note(row: pa.csv.InvalidRow) -> str:
        wrong.append(row.number or 0)
        return "skip"

    names = [f"f{index}" for index in range(len(fields) + options.trailing_delimiter)]
    wanted = {t.source: names[fields.index(t.source)] for t in targets if t.source in fields}
    if not wanted:
        return None, plain
    try:
        table = pa.csv.read_csv(
            pa.BufferReader(data),
            pa.csv.ReadOptions(use_threads=False, block_size=max(data.size, 1) + 1, column_names=names),
            pa.csv.ParseOptions(
                delimiter=options.delimiter,
                quote_char=options.quote or False,
                ignore_empty_lines=False,
                invalid_row_handler=note,
            ),
            pa.csv.ConvertOptions(
                check_utf8=False,
                column_types={name: pa.string() for name in wanted.values()},
                include_columns=list(wanted.values()),
                null_values=list(options.null),
                strings_can_be_null=True,
                quoted_strings_can_be_null=options.quoted_null,
            ),
        )
    except pa.ArrowInvalid:
        return None, plain
    if table.num_rows + len(wrong) != len(plain):
        return None, plain
    kept = np.delete(plain, np.array(wrong, np.int64) - 1) if wrong else plain
    return {source: _one_chunk(table[name]) for source, name in wanted.items()}, kept


def _one_chunk(column: pa.ChunkedArray) -> pa.StringArray:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()

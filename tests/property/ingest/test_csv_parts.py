"""A CSV file gives the same rows, bad rows and line numbers in blocks of any size, and in parts cut anywhere."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sparkhaven.ingest.spec import ColumnSpec, CsvOptions
from sparkhaven.store.epochs.state.log_values import FileId, FilePart
from tests.support.ingest.ingest_cases import decode, schema, stream, values, write
from tests.support.ingest.naive_lines import Found, csv_records
from tests.support.ingest.small_blocks import small_blocks

NAMES = st.sampled_from([("a", "b"), ("a", "b"), ("a",)])  # of one field an empty line is a record
KEPT = 8  # bytes of a payload that are compared: a long one is kept as far as it was held
PIECES = [
    *['1,"a', 'b"', '2,"c"', "3,d", '"', '""', '4,"e"x', '5,"f""g"', "6", "", "\r", '7,h"i', '8,"j",k', "x" * 25],
    *[
        '"l\r',
        'm",n',
        '"o"p,"',
        "#",
        '#"',
        '#,"',
        "#,'",
        ",",
        '"""',
        "é",
        "q" * 12 + '"',
        '9,"' + "r" * 25,
        "s\rt,u",
        "\xff",
    ],
]
FILES = st.lists(st.tuples(st.sampled_from(PIECES), st.sampled_from(["\n", "\r\n"])), min_size=1, max_size=14)


def content_of(lines: list[tuple[str, str]], head: bytes, last: bool) -> bytes:
    text = b"".join(
        (line if line != "\xff" else "\udcff").encode("utf-8", "surrogateescape") + end.encode() for line, end in lines
    )
    return head + (text if last else text.removesuffix(b"\n"))


def reported(splits: list[FileId], options: CsvOptions, names: tuple[str, ...]) -> tuple[Found, int]:
    """What decoding says, and how many records were read."""
    found, read = Found(), 0
    for split in splits:
        spec = stream(ColumnSpec("at", meta="line"), form="csv", csv=options, missing="null")
        routed, rejects = decode(split, spec, schema(**dict.fromkeys(names, "String"), at="long"))
        records = zip(*(values(routed, name) for name in names), strict=True)
        found.rows += sorted(zip(values(routed, "at"), records, strict=True))
        found.bad += sorted((row.line, row.explanation, (row.payload or b"")[:KEPT], row.size) for row in rejects.rows)
        read += rejects.read
    return found, read


def expected(content: bytes, options: CsvOptions, width: int, max_line: int, max_record: int) -> tuple[Found, int]:
    found = csv_records(content, options, width, max_line, max_record)
    found.bad = [(line, reason, payload[:KEPT], size) for line, reason, payload, size in found.bad]
    return found, len(found.rows) + len(found.bad)


OPTIONS = st.builds(
    lambda header, quote, skip, comment: CsvOptions(header, quote=quote, null=("",), skip_lines=skip, comment=comment),
    st.booleans(), st.sampled_from(['"', '"', '"', "'", ""]), st.sampled_from([0, 0, 2]), st.sampled_from(["", "#"]),
)  # fmt: skip


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(
    lines=FILES,
    head=st.sampled_from([b"", b"\xef\xbb\xbf", b"\xef\xbb\xbf\xef\xbb\xbf"]),
    last=st.booleans(),
    compiled=st.booleans(),
    options=OPTIONS,
    names=NAMES,
    sizes=st.tuples(st.integers(1, 60), st.integers(1, 40), st.integers(1, 5)),
    max_line=st.integers(8, 40),
    max_record=st.integers(8, 80),
    data=st.data(),
)
def test_blocks_and_parts_of_any_size_say_what_a_naive_reader_says(
    tmp_path_factory: pytest.TempPathFactory,
    lines: list[tuple[str, str]],
    head: bytes,
    last: bool,
    compiled: bool,
    options: CsvOptions,
    names: tuple[str, ...],
    sizes: tuple[int, int, int],
    max_line: int,
    max_record: int,
    data: st.DataObject,
) -> None:
    header = [(",".join(names), "\n")] if options.header else []
    if options.header:
        head = head[:3]
    else:
        options = replace(options, names=names)
    content = content_of([*[("#c", "\n")] * options.skip_lines, *header, *lines], head, last)
    file = write(tmp_path_factory.mktemp("csv") / "a.csv", content)
    places = sorted(data.draw(st.sets(st.integers(1, max(file.size - 1, 1)), max_size=4)))
    spans = pairwise([0, *(place for place in places if place < file.size), file.size])
    parts: list[FileId] = [FilePart(file.path, file.size, file.mtime_ns, *span) for span in spans]
    block, chunk, count = sizes
    with pytest.MonkeyPatch.context() as patch:
        if not compiled:
            patch.setattr("sparkhaven.ingest.formats.csv.csv_rows.csv_scanner", lambda *given: None)
        small_blocks(patch, block, max_record, max_line=max_line, chunk=chunk, lines=count)
        wanted = expected(content, options, len(names), max_line, max_record)
        assert reported([file], options, names) == wanted
        assert reported(parts, options, names) == wanted

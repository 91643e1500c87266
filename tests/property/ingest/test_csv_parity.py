"""The scanner, and PyArrow where there is none, say of CSV what the exact pass says, row by row, good and bad."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sparkhaven.ingest.bad_rows import Rejects
from sparkhaven.ingest.formats.csv.csv_rows import CsvDecoder
from sparkhaven.ingest.spec import CsvOptions
from tests.support.ingest.ingest_cases import PLENTY
from tests.support.ingest.odd_fields import NUMBERS, QUICK, SUITED, TARGETS, TEXTS, WORDS, block_of, rejected, typed

_CSV_TEXTS = st.one_of(
    NUMBERS, TEXTS, WORDS, st.sampled_from(["+5", "007", "0x1F", " 5", "1_0", ".5", "5.", "--1", "NA", "TRUE"])
)


@st.composite
def _csv_line(draw: st.DrawFn) -> bytes:
    odd = draw(st.integers(0, 24))
    if odd == 0:
        return draw(
            st.sampled_from([b"", b" ", b'"', b'"a', b'a"b', b'"a"b,c', b"1,2", b"\xff", b'x,"a\n', b'b",y', b"a\rb"])
        )
    fields = []
    for one in CSV_TARGETS:
        text = draw(_CSV_TEXTS if draw(st.integers(0, 5)) == 0 else SUITED.get(one.source, NUMBERS))
        if len(text) > 1 and text[0] == text[-1] == '"' and draw(st.integers(0, 9)):
            text = json.loads(text)
        if draw(st.integers(0, 7)) == 0:
            text = draw(st.sampled_from(['5" pipe', 'say "hi"', 'a""b', 'x"', ' "y"', "a"])) + text
        bare = not text.startswith('"') and draw(st.booleans())  # then quotes stand for themselves
        quoted = any(mark in text for mark in (",\n\r" if bare else ',"\n\r')) or draw(st.integers(0, 5)) == 0
        fields.append('"' + text.replace('"', '""') + '"' if quoted else text)
    fields.append(draw(st.sampled_from(["x", "", '"1,2"'])))
    return ",".join(fields).encode() + draw(st.sampled_from([b"", b"", b"", b"\r"]))


CSV_TARGETS = tuple(one for one in TARGETS if one.source != "A")
CSV = CsvOptions(header=False, names=(*(t.source for t in CSV_TARGETS), "extra"), null=("", "NA"))


@pytest.mark.slow
@QUICK
@given(st.lists(_csv_line(), min_size=1, max_size=25))
def test_csv_fast_passes_and_exact_pass_agree(lines: list[bytes]) -> None:
    block = block_of(lines)
    assert block is not None
    outcomes = []
    for compiled in (True, False):
        rejects = Rejects(PLENTY)
        decoder = CsvDecoder(CSV_TARGETS, [], CSV, compiled=compiled)
        rows, used = decoder.decode(block, "f", rejects)
        assert used == len(block) == len(rows) + rejects.bad + decoder.lines_left
        outcomes.append((typed(rows, CSV_TARGETS), rejected(rejects), rejects.read, +rejects.ignored))
    assert outcomes[0] == outcomes[1]

"""Generated and mutated CSV records in all dialects: scanner and exact pass compared over whole blocks.

    python -m tests.support.ingest.scanning.records [--records 1000000] [--seed 1]

Prints how many records were compared, and how many the scanner took; a difference is an AssertionError with its seed.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from sparkhaven.ingest.bad_rows import Rejects
from sparkhaven.ingest.content.lines import LineBlock, framed_block, line_blocks
from sparkhaven.ingest.formats.csv.csv_rows import CsvDecoder
from sparkhaven.ingest.spec import CsvOptions, Target, TextForm
from tests.support.ingest.ingest_cases import PLENTY, target
from tests.support.ingest.odd_fields import TARGETS, rejected, typed
from tests.support.ingest.scanning.lines import number, spoilt, suited

RECORDS = 200  # of a block
FORMS = (
    *TARGETS,
    replace(target("Instant", "m", unit="s"), far="clamp"),
    replace(target("Instant", "n", zone="America/New_York"), far="null"),
    target("String", "o", encoding="ISO_8859_1"),
    replace(target("int", "p"), form=TextForm(trim=True, thousands="'")),
    replace(target("double", "q"), form=TextForm(decimal=",", thousands=".")),
    replace(target("Boolean", "r"), form=TextForm(true=("1", "ja"), false=("0", "nein"))),
    replace(target("String", "s"), form=TextForm(trim=True)),
    replace(target("Instant", "t", zone="Europe/Berlin"), form=TextForm(pattern="%d.%m.%Y")),
    replace(target("char", "u"), form=TextForm(trim=True)),
)
KNOWN = ("z",)
_WORDS = [
    "",
    "a",
    "AAPL",
    "é",
    "😀",
    "ÿ",
    'say "hi"',
    "'",
    "b\\s",
    "l\nf",
    "l\r\nf",
    "c\rr",
    "\x00",
    "\uffff",
    "\ufeff",
]
_WORDS += [" t ", "NaN", "x" * 40, "x" * 16, "é" * 30, "NA", "#", "\x7f", "1,5", "a;b", "-1", "null", "-"]
_NUMBERS = [
    "+5",
    "007",
    "-007.50",
    "5.",
    ".5",
    "-.5e1",
    ".",
    "+",
    "",
    "1e",
    "1e+5",
    "00",
    "+0",
    "0x1F",
    "1_0",
    " 5",
    "5 ",
]
_NUMBERS += [
    "nan",
    "NaN",
    "-nan",
    "+nan",
    "inf",
    "-Inf",
    "Infinity",
    "+infinity",
    "INF",
    "-0",
    "-0.0",
    "1.234,5",
    "1'234",
]
_TIMES = ["2013-01-01", "2013-01-01T05", "2013-01-01 05:06", "2013-01-01T05Z", "2013-01-01T05:06+01", "2013-01-01T"]
_TIMES += [
    "2013-03-31T02:30",
    "2013-10-27 02:30:00",
    "2013-02-29",
    "2013-01-01T05:06:",
    "2013-01-01T05:6",
    "9999-12-31",
]
_TIMES += [
    "2013-01-01T05+0100",
    "2013-01-01T05:06-23:59",
    "31.01.2013",
    "1.2.2013",
    "2013-01-01T05:06:07.",
    "12013-01-01",
]
_OTHERS = ["true", "True", "TRUE", "false", "False", "FALSE", "tRUE", "ja", "nein", "0", "1", "yes"]
_BYTES = [
    b"",
    b"\xff",
    b'"',
    b"'",
    b",",
    b";",
    b"\n",
    b"\r\n",
    b"\r",
    b"\x00",
    b"0",
    b"-",
    b" ",
    b"#",
    b'""',
    b"\xef\xbb\xbf",
]
_NULLS = [("",), ("",), ("", "NA"), (), ("NULL", "-1", ""), ('say "hi"', ""), ("x" * 70, "x" * 62, "7")]


def dialect(chance: random.Random, names: Sequence[str]) -> CsvOptions:
    """The settings of a feed without a header line."""
    delimiter = chance.choice([*",,,,;\t| ", "a", ".", "1", "-"])
    quote = chance.choice(['"', '"', '"', "'", "", "5"])
    return CsvOptions(
        header=False,
        names=tuple(names),
        delimiter=delimiter,
        quote=quote,
        null=chance.choice(_NULLS),
        quoted_null=chance.random() < 0.3,
        comment=chance.choice(["", "", "#", "//", '"#']),
        trailing_delimiter=chance.random() < 0.2,
    )


def _text(chance: random.Random, one: Target) -> str:
    kind = chance.choice([_WORDS, _NUMBERS, _TIMES, _OTHERS, None])
    return chance.choice(kind) if kind is not None else number(chance)


def _suited(chance: random.Random, one: Target) -> str:
    if one.column.type.name in ("String", "char"):
        one_byte = one.column.type.name == "char" or one.column.encoding != "UTF_8"
        return chance.choice(["a", "b", "\x7f", " "] if one_byte else _WORDS)
    if one.source == "t":
        return f"{chance.randint(1, 28):02}.{chance.randint(1, 12):02}.{chance.randint(1971, 2037)}"
    return suited(chance, one).strip('"').replace("null", "")


def record(chance: random.Random, wanted: Sequence[Target | None], options: CsvOptions, odd: float) -> bytes:
    """One record: mostly as many fields as there are names, sometimes changed in a few bytes."""
    fields = []
    quote, delimiter = options.quote, options.delimiter
    for one in wanted:
        if chance.random() < 0.05 and options.null:
            text = chance.choice(options.null)
        elif one is None or chance.random() < odd:
            text = _text(chance, FORMS[0])
        else:
            text = _suited(chance, one)
            if text and chance.random() < odd / 3:
                text = spoilt(chance, text)
        special = text.startswith(quote) or delimiter in text or "\n" in text or "\r" in text
        if quote and (special or chance.random() < 0.15) and chance.random() > odd / 4:
            text = quote + text.replace(quote, 2 * quote) + quote
        fields.append(text)
    made = bytearray(delimiter.join(fields).encode("utf-8", "surrogatepass"))
    if options.trailing_delimiter and chance.random() < 0.7:
        made += delimiter.encode()
    if chance.random() < odd:
        for _ in range(chance.randint(1, 3)):
            place = chance.randrange(len(made) + 1)
            changes = [*_BYTES, delimiter.encode(), quote.encode(), bytes([chance.randrange(256)])]
            made[place : place + chance.randint(0, 2)] = chance.choice(changes)
    return bytes(made)


def blocks(chance: random.Random, wanted: Sequence[Target | None], options: CsvOptions) -> list[LineBlock]:
    """Records in one block or in several, as the lines of a file or as messages."""
    odd = chance.choice([0.0, 0.02, 0.1, 0.4])
    made = [record(chance, wanted, options, odd) for _ in range(RECORDS)]
    if chance.random() < 0.2:
        return [framed_block(made, np.arange(7, 7 + 2 * RECORDS, 2, dtype=np.int64))]
    for _ in range(chance.randint(0, 5)):
        made.insert(
            chance.randrange(RECORDS), chance.choice([b"", b"\r", b"# comment", b'//"', b'"# not one', b"\r\r"])
        )
    end = chance.choice([b"\n", b"\n", b"\r\n"])
    data = end.join([*made, b""] if chance.random() < 0.8 else made)
    return list(line_blocks([data], lines=chance.choice([10**6, 10**6, 7, 50])))


def outcome(decoder: CsvDecoder, given: Sequence[LineBlock], targets: Sequence[Target]) -> list[object]:
    """All that decoding makes known: rows, whole records, what is refused and counted, and where blocks were cut."""
    rejects, found, rest, taken = Rejects(PLENTY), [], None, 0
    rejects.source.count(sum(map(len, given)))
    for place, block in enumerate(given):
        whole = block if rest is None else rest.before(block)
        rows, used = decoder.decode(whole, "f", rejects, last=place == len(given) - 1)
        rejects.source.leave(decoder.lines_left)
        taken += len(rows)
        for array in rows.columns:
            array.validate(full=True)
        texts = [] if block.framed else [decoder.record_of(line) for line in rows.numbers.tolist()]
        found.append((used, typed(rows, targets), texts))
        rest = whole.rest(used) if used < len(whole) else None
    rejects.source.require(taken, rejects.bad, "f")
    return [found, rejected(rejects), rejects.read, +rejects.ignored, decoder.unclosed()]


class Scanning(CsvDecoder):
    """Counts the records that the scanner takes."""

    def __init__(self, targets: Sequence[Target], options: CsvOptions) -> None:
        super().__init__(targets, KNOWN, options, missing="null")
        self.accepted = 0

    def _scanned(self, *given):  # type: ignore[no-untyped-def]
        made = super()._scanned(*given)
        assert self._scanner is not None, "the compiled core is not there: pip install --editable ."
        self.accepted += 0 if made is None else len(made.fast)
        return made


def same(given: Sequence[LineBlock], targets: Sequence[Target], options: CsvOptions) -> int:
    """Asserts that scanner and exact pass make the same of some blocks; how many records the scanner took."""
    scanning = Scanning(targets, options)
    found = outcome(scanning, given, targets)
    wanted = outcome(CsvDecoder(targets, KNOWN, options, compiled=False, missing="null"), given, targets)
    for one, other in zip(found, wanted, strict=True):
        assert one == other
    return scanning.accepted


def compare(records: int, seed: int) -> int:
    """Compares so many records in blocks; how many the scanner took."""
    accepted = 0
    for part in range(-(-records // RECORDS)):
        chance = random.Random(f"{seed} {part}")
        targets = chance.sample(FORMS, chance.randint(1, 8))
        wanted: list[Target | None] = [*targets, *[None] * chance.randint(0, 2)]
        if len(targets) > 1 and chance.random() < 0.1:
            wanted.remove(targets[0])  # no field of the file
        chance.shuffle(wanted)
        if chance.random() < 0.1:
            targets = [*targets, replace(chance.choice(FORMS), source=targets[-1].source)]
        names = [f"other{place}" if one is None else one.source for place, one in enumerate(wanted)]
        options = dialect(chance, names)
        try:
            accepted += same(blocks(chance, wanted, options), targets, options)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, part {part}, {options}: {error}") from error
    return accepted


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Compares the CSV scanner with the exact pass.")
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    print(f"{given.records} records compared, the scanner took {compare(given.records, given.seed)}")
    sys.exit(0)

"""The compiled scanner makes of every CSV record what the exact pass makes of it, in time that grows with the input."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest

from sparkhaven.ingest.content.lines import LineBlock, framed_block, line_blocks, line_ends
from sparkhaven.ingest.formats.csv.spans import CsvScanner, ScannedRecords
from sparkhaven.ingest.spec import CsvOptions, Target, TextForm
from tests.support.guard_pages import guarded
from tests.support.ingest.ingest_cases import target
from tests.support.ingest.odd_fields import TARGETS, block_of
from tests.support.ingest.scanning.records import compare, same

LONGEST = 10**9
GOOD = (
    b'12345678,-7,3,1.25e-3,.5,True,\xc3\xa9,AAPL,"x ""y"",\r\nz",2013-01-01T05:00:00.25+01:00,1357016400000,'
    b"2013-07-01,5.,"
)


def scan(block: LineBlock, targets: Sequence[Target], *, last: bool = True, **settings: object) -> ScannedRecords:
    """What the scanner alone makes of records with a field for each target."""
    names = tuple(one.source for one in targets)
    options = CsvOptions(header=False, names=names, **settings)  # type: ignore[arg-type]
    return CsvScanner(targets, names, options).scan(block, 0, last=last, longest=LONGEST, alone=None)


def scanned(lines: list[bytes], *targets: Target, **settings: object) -> tuple[list[int], list[list[object]]]:
    """Which lines the scanner alone takes as records, and their values."""
    block = block_of(lines)
    assert block is not None
    found = scan(block, targets, **settings)
    return found.starts.tolist(), [array.to_pylist() for array in found.columns]


def compared(lines: list[bytes], *targets: Target, **settings: object) -> int:
    """Holds scanner and exact pass against each other; how many records the scanner took."""
    block = block_of(lines)
    assert block is not None
    names = tuple(one.source for one in targets)
    return same([block], targets, CsvOptions(header=False, names=names, **settings))  # type: ignore[arg-type]


@pytest.mark.slow
def test_generated_and_mutated_records() -> None:
    assert compare(6000, 1) > 1500


def test_a_clean_record_over_two_lines_is_not_in_doubt() -> None:
    columns = (*TARGETS, replace(target("String", "end"), source="end"))
    found = scan(next(line_blocks([GOOD + b"\n" + GOOD + b"\r\n" + GOOD])), columns)
    assert (found.starts.tolist(), found.stops.tolist(), found.odd.tolist()) == ([0, 2, 4], [2, 4, 6], [])
    assert [array.to_pylist()[2] for array in found.columns[:9]] == [
        *(12345678, -7, 3, 0.00125, 0.5, True, 233, "AAPL"),
        'x "y",\r\nz',
    ]
    assert found.columns[11].view("int64").to_pylist() == [1372629600 * 10**9] * 3


NUMBERS = [b"+5", b"007", b"-007.50", b"5.", b".5", b"-.5e1", b"+0", b"-0", b"00", b"1e2", b"nan", b"NaN", b"-Inf"]
NUMBERS += [b"Infinity", b"+infinity", b"12345678901234567890123", b"0.1000000000000000055511151231257827"]
NO_NUMBERS = [
    b"",
    b".",
    b"+",
    b"-",
    b"e5",
    b"1e",
    b"1e+",
    b"0x1F",
    b"1_0",
    b" 5",
    b"5 ",
    b"--1",
    b"+-1",
    b"1,5",
    b"1.2.3",
]
NO_NUMBERS += [b"INF", b"NAN", b"infin", b"1e5 ", b"\xd9\xa3", b"5\x00", b"NA"]


def test_numbers_as_texts_have_them() -> None:
    taken, (values,) = scanned(NUMBERS, target("double"))
    wanted = [float(NUMBERS[index]) for index in taken]
    assert [repr(value) for value in values] == [repr(value) for value in wanted]
    assert len(taken) == len(NUMBERS)
    assert scanned([text for text in NO_NUMBERS if text], target("double"), delimiter=";")[0] == []
    for kind in ("double", "float", "int", "long", "byte"):
        compared([*NUMBERS, *NO_NUMBERS, b"127", b"128", b"-127", b"-128", b"1e39"], target(kind), delimiter=";")
    compared([*NUMBERS, *NO_NUMBERS], target("Instant", unit="ms"), delimiter=";")


@pytest.mark.parametrize("mark", [*".-+e5", "E", "a"])
def test_a_delimiter_or_quote_that_numbers_have_too(mark: str) -> None:
    lines = [line.replace(b"#", mark.encode()) for line in (b"1#2", b"12#3#", b"1#", b"#2", b"10#20", b"0#07", b"2#x")]
    compared(lines, target("double", "v"), target("long", "w"), delimiter=mark)
    compared([b"5,6", b"57,8", b"5755,8", b'"7","5"'], target("double", "v"), target("long", "w"), quote="5")


def test_doubles_of_more_digits_than_a_word_holds() -> None:
    chance = random.Random(3)
    texts = [
        f"{chance.randint(1, 10**25)}.{chance.randint(0, 10**30)}e{chance.randint(-250, 250)}" for _ in range(4000)
    ]
    texts += [f"{chance.random():.40f}" for _ in range(4000)] + ["0." + "0" * 30 + "1" * 40, "9" * 25, "1" + "0" * 40]
    half = 2**53 + 1  # exactly between two doubles, or a little more
    texts += [f"{half}.{'0' * 20}", f"{half}.{'0' * 20}1", f"{half * 4}.{'0' * 30}1", f"{half}{'0' * 10}"]
    taken, (values,) = scanned([text.encode() for text in texts], target("double"))
    assert [texts[i] for i, value in zip(taken, values, strict=True) if value != float(texts[i])] == []
    assert len(taken) > 0.99 * len(texts)
    assert all(math.isfinite(value) for value in values if isinstance(value, float))
    compared([b"12345678901234567890123", b"1.00000000000000000000", b"100000000000000000000"], target("long"))


NOT_TAKEN = [
    *(b'"a"b,1', b'"a,1', b'a,"1"2', b'"a""",1"', b"a", b"a,1,", b"a,1,2", b"a,1\r\r", b"a\r,1", b"\ra,1", b"a,1\rb"),
    *(b"\xff,1", b'"\xff",1', b"\xc3,1", b"\xed\xa0\x80,1", b"\xf4\x90\x80\x80,1", b"\xc0\x80,1", b"\x00,1", b"a,x"),
]
TAKEN = [
    *(b"a,1", b'"a",1', b'"a",1\r', b'a"b,1', b'a"",1', b' "a",1', b'"a""b",1', b'"""",1', b'"",1', b",1", b'"a,b",1'),
    *(
        b'"a\rb",1',
        b'"\r",1',
        b"\xef\xbb\xbfa,1",
        b'\xef\xbb\xbf"a,1',
        b"a\x00b,1",
        b"\x01,1",
        b'a,"1"',
        b"\xf0\x9f\x98\x80,1",
    ),
    *(b"'a,1", b"a;b,1", b"#a,1", b"x" * 100 + b",1", b'"' + b"y" * 100 + b'",1'),
]


def test_what_is_no_record_is_in_doubt_and_what_is_one_is_not() -> None:
    columns = (target("String", "a"), target("int", "b"))
    for line in NOT_TAKEN:
        assert scanned([b"z,9", line], *columns)[0] == [0], line
        compared([b"z,9", line, b"z,9"], *columns)
    for line in TAKEN:
        assert scanned([b"z,9", line], *columns)[0] == [0, 1], line
        compared([b"z,9", line, b"z,9"], *columns)


NULLS = ("", "NA", 'q"', "-1", "x" * 62, "x" * 70)


@pytest.mark.parametrize("quoted_null", [False, True])
def test_null_texts(quoted_null: bool) -> None:
    texts = [*NULLS, "NAN", "N", 'q""', "-1.0", "x" * 63, "0"]
    lines = [text.encode() for text in texts if text]
    lines += ['"{}"'.format(text.replace('"', '""')).encode() for text in texts]
    for kind in ("String", "int", "double", "char", "Boolean"):
        taken = compared(lines, target(kind), null=NULLS, quoted_null=quoted_null)
        assert taken >= (2 if quoted_null else 1) * (len(NULLS) - 1)
    spaced = replace(target("String"), form=TextForm(trim=True))
    assert compared([b" NA ", b"NA", b"  "], spaced, null=NULLS) == 3


def test_a_field_that_several_columns_take_or_none() -> None:
    columns = [target("String", "v"), replace(target("int", "w"), source="v"), target("long", "x")]
    options = CsvOptions(header=False, names=("u", "v", "t"))
    block = block_of([b"a,1,b", b"a,x,b", b'"",+07,""'])
    assert block is not None
    assert same([block], columns, options) == 2


def test_messages_are_records_whatever_they_hold() -> None:
    payloads = [b"a,1", b"", b"a,1\n", b"a,1\r", b'"a\nb",1', b"a\nb,1", b"#a,1", b'"a,1', b"\n", b"\r", b'a,"1"\r\n']
    block = framed_block(payloads, np.arange(5, 5 + 3 * len(payloads), 3))
    columns = [target("String", "a"), target("int", "b")]
    assert same([block], columns, CsvOptions(header=False, names=("a", "b"), comment="#")) == 4
    one = CsvOptions(header=False, names=("a",))
    assert same([framed_block([b"", b"\r", b"\n", b'""', b"x"], np.arange(5))], columns[:1], one) == 4


@pytest.mark.slow
def test_records_over_the_ends_of_blocks() -> None:
    lines = [b'%d,"a\n%d\r\n""b"\n' % (n, n) + b"\n" * (n % 3) + b"# no record\n" * (n % 2) for n in range(200)]
    options, columns = (
        CsvOptions(header=False, names=("a", "b"), comment="#"),
        [target("int", "a"), target("String", "b")],
    )
    taken = [same(list(line_blocks(lines, lines=count)), columns, options) for count in (1, 2, 5, 64, 1000)]
    assert taken == sorted(taken) and taken[2] > 50 and taken[3] > 180 and taken[4] == 200


def test_nothing_is_read_behind_the_end() -> None:
    columns = (*TARGETS, replace(target("String", "end"), source="end"))
    scanner = CsvScanner(columns, [one.source for one in columns], CsvOptions())
    whole = GOOD + b"\n" + GOOD
    complete = len(GOOD) + 1
    for stop in range(1, len(whole) + 1):
        with guarded(np.frombuffer(whole[:stop], np.uint8)) as octets:
            data = memoryview(octets)
            ends = line_ends(data)  # type: ignore[arg-type]
            block = LineBlock(data, ends, np.arange(len(ends) - 1))  # type: ignore[arg-type]
            found = scanner.scan(block, 0, last=True, longest=LONGEST, alone=None)
            assert len(found.starts) == (stop >= complete - 1) + (stop >= len(whole)), stop


HOSTILE: dict[str, Callable[[int], bytes]] = {
    "an open quote": lambda n: b'1,"open\n' + b'2,"x"\n' * n,
    "an open quote, doubled ones behind": lambda n: b'1,"open\n' + b'2,"",z\n' * n,
    "an open quote in each line": lambda n: b'1,"open\n' * n,
    "quotes": lambda n: b'"\n' * n,
    "three quotes": lambda n: b'"""\n' * n,
    "quotes inside": lambda n: b'a"b"c,x"\n' * n,
    "text behind quotes": lambda n: b'"a"b\n' * n,
    "one long field": lambda n: b"1," + b"x" * (8 * n),
    "one long quoted field": lambda n: b'1,"' + b'x""y' * (2 * n) + b'"',
    "one long quoted field, odd at its end": lambda n: b'1,"' + b'x""y\n' * n + b'"z\n',
    "long numbers": lambda n: b"0" * (4 * n) + b"1.5,x\n" + b"1" + b"0" * (4 * n) + b"," + b"x\n",
    "carriage returns": lambda n: b"\r" * n + b"\n" + b"a\r,b\n" * n,
    "blank lines": lambda n: b"\n\r\n" * n,
    "comments": lambda n: b'#"\n' * n,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_time_grows_with_the_input_and_no_faster(name: str) -> None:
    columns = [target("double", "a"), target("String", "b")]
    options = CsvOptions(header=False, names=("a", "b"), comment="#")

    def spent(n: int) -> float:
        block = next(line_blocks([HOSTILE[name](n)], max_line=10**9, block=10**9, lines=10**9))
        scanner, best = CsvScanner(columns, options.names, options), math.inf
        for _ in range(4):
            started = time.process_time()
            found = scanner.scan(block, 0, last=True, longest=LONGEST, alone=None)
            best = min(best, time.process_time() - started)
        assert found.open is None
        return best

    assert spent(160_000) < 40 * spent(10_000) + 0.02  # 16 times the bytes; were it their square, 256


def test_an_open_quote_is_told_where_more_may_follow() -> None:
    block = block_of([b"1,a", b'2,"b', b"3,c"])
    assert block is not None
    columns = [target("int", "a"), target("String", "b")]
    found = scan(block, columns, last=False)
    assert (found.starts.tolist(), found.odd.tolist(), found.open) == ([0], [], 1)
    found = scan(block, columns)
    assert (found.starts.tolist(), found.odd.tolist(), found.open) == ([0, 2], [1], None)

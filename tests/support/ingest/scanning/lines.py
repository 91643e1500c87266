"""Generated and mutated JSON lines: scanner and exact pass compared over whole blocks.

    python -m tests.support.ingest.scanning.lines [--lines 1000000] [--seed 1]

Prints how many lines were compared, and how many the scanner took; a difference is an AssertionError with its seed.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace

from sparkhaven.ingest.spec import Target, TextForm
from tests.support.ingest.ingest_cases import target
from tests.support.ingest.odd_fields import TARGETS, block_of
from tests.support.ingest.one_way import same

BLOCK = 400
CODED = (
    target("LocalDate", "D"),
    target("LocalTime 3", "T"),
    target("BigDecimal 12,3", "B"),
    replace(target("BigInteger", "I"), form=TextForm(quoted=True, trim=True, thousands=",")),
    replace(target("LocalDate", "P"), form=TextForm(pattern="%d.%m.%Y")),
    *(
        target(f"{kind}[]", f"{kind}s")
        for kind in ("byte", "boolean", "char", "short", "int", "long", "float", "double")
    ),
    target("String[]", "texts"),
    target("StringSet", "set"),
    target("java.util.Map StringIntMapCodec", "map"),
    target("byte[] ByteArrayCodec 4", "four"),
)
FORMS = (
    *TARGETS,
    replace(target("Instant", "m", unit="s"), far="clamp"),
    replace(target("Instant", "n"), far="null"),
    target("String", "o", encoding="ISO_8859_1"),
    replace(target("int", "p"), form=TextForm(quoted=True, thousands="'")),
    replace(target("Boolean", "q"), form=TextForm(quoted=True, true=("1", "ja"), false=("0", "nein"))),
    replace(target("String", "r"), form=TextForm(trim=True, as_text=True)),
    replace(target("int", "in_b"), source="in.b"),
    replace(target("String", "in_d"), source="in.deep.d"),
)
_SECONDS, _DECIMALS = ["", ":07.5", ":08"], ["1.5", "-123456789.125", '"+1.50"']
_UNWANTED = '[{"a":[[],{}],"b":"\\u00e9\\ud83d\\ude00"},-0.5e-7,null]'
_ODD = [b"", b"\xff", b'"', b"\\", b"{", b"}", b",", b"0", b"-", b"\x00", b"e", b" "]
KNOWN = ("z", "in.k")
_WORDS = ["", "a", "AAPL", "é", "😀", "\u0142", 'q"', "b\\s", "l\nf", "\x7f", "\uffff", " t ", "NaN", "x" * 40]


def number(chance: random.Random) -> str:
    """A number in one of many ways to write it, sometimes beyond every range."""
    kinds: list[Callable[[], str]] = [
        lambda: str(chance.randint(-200, 200)),
        lambda: str(chance.randint(-(2**65), 2**65)),
        lambda: repr(chance.uniform(-1e6, 1e6)),
        lambda: repr(float(f"{chance.random():.17f}e{chance.randint(-320, 308)}")),
        lambda: f"{chance.randint(0, 10**17)}.{chance.randint(0, 99):02}",
        lambda: f"{chance.randint(-99, 99)}.0",
        lambda: f"{chance.randint(0, 9)}e{chance.randint(-400, 400)}",
        lambda: chance.choice(["-0", "-0.0", "0", "1E2", "0e5", "3.4028235e38", "1.7976931348623157e308", "5e-324"]),
        lambda: f"{chance.randint(0, 2 * 10**9)}.{chance.randint(0, 10 ** chance.randint(1, 10))}",
    ]
    return chance.choice(kinds)()


def _text(chance: random.Random) -> str:
    kinds: list[Callable[[], str]] = [
        lambda: chance.choice(_WORDS),
        lambda: "".join(chance.choices(_WORDS, k=3)),
        lambda: chance.choice(["1'234", "12", "ja", "nein", "1", ""]),
        lambda: (
            f"{chance.randint(1670, 2270)}-{chance.randint(1, 12):02}-{chance.randint(1, 31):02}"
            f"{chance.choice('T T')}{chance.randint(0, 24):02}:{chance.randint(0, 60):02}:{chance.randint(0, 60):02}"
            + chance.choice(["", ".5", ".123456789", ".1234567890", "."])
            + chance.choice(["Z", "", "+01:00", "-0530", "+09", "+24:00", "z"])
        ),
    ]
    return json.dumps(chance.choice(kinds)(), ensure_ascii=chance.random() < 0.3)


def _odd(chance: random.Random) -> str:
    others = ["null", "true", "false", "[]", "{}", '[1,{"a":"]"}]', "nul", "NaN", '"\\ud800"', "[1,]"]
    return chance.choice([lambda: chance.choice(others), lambda: number(chance), lambda: _text(chance)])()


def _of_elements(chance: random.Random, one: Target) -> str:
    """An array or object, mostly of what its elements can be."""
    name = one.column.type.name.removesuffix("[]")
    words = {"boolean": ["true", "false"], "char": ['"a"', '"\\u00e9"', '"ab"']}
    words["String"] = words["StringSet"] = ['"a"', '"b,c"', '""', '"\\ud83d\\ude00"']
    numbers = ["0", "-1", "127", "-128", "32767", "-32768", "2147483648", "1.0", "1e2", "0.5", "-0", "1e39", "1e400"]
    blank = chance.choice(["", "", " ", "\t"])
    elements = [
        _odd(chance) if chance.random() < 0.02 else chance.choice(["null", *words.get(name, numbers)] * 9 + numbers)
        for _ in range(chance.randrange(5))
    ]
    if one.column.type.name == "java.util.Map" or chance.random() < 0.02:
        return "{" + ",".join(f'"{chance.choice("abcd")}"{blank}:{element}' for element in elements) + "}"
    return f"[{blank}{f'{blank},{blank}'.join(elements)}{blank}]"


def _coded(chance: random.Random, one: Target) -> str:
    """A value of a type with a codec."""
    kinds = {
        "LocalDate": lambda: f'"{chance.randint(0, 9999):04}-{chance.randint(1, 12):02}-{chance.randint(1, 30):02}"',
        "LocalTime": lambda: f'"{chance.randint(0, 24):02}:{chance.randint(0, 59):02}{chance.choice(_SECONDS)}"',
        "BigDecimal": lambda: chance.choice([number(chance), f'"{number(chance)}"', *_DECIMALS]),
        "BigInteger": lambda: chance.choice([number(chance), '"1,234"', '" 5 "', '""', "12.0", "1e3"]),
    }
    if one.form is not None and one.form.pattern:
        return f'"{chance.randint(1, 31)}.{chance.randint(1, 12):02}.{chance.choice(["2024", "0000", "24"])}"'
    if one.source == "four" or (one.source == "bytes" and chance.random() < 0.5):
        return chance.choice(['"AQIDBA=="', '"AQID"', '"AQIDBA"', '""'])
    made = kinds.get(one.column.type.name)
    return _of_elements(chance, one) if made is None else made()


def suited(chance: random.Random, one: Target) -> str:
    """A value that the column takes, in one of the ways to write it."""
    name = one.column.type.name
    if chance.random() < 0.05:
        return "null"
    if one.column.type.coding is not None:
        return _coded(chance, one)
    if name == "Boolean":
        return chance.choice(["true", "false"])
    if name in ("double", "float"):
        return repr(chance.choice([chance.uniform(-1e6, 1e6), chance.random() * 1e-30, chance.randint(0, 9)]))
    if name == "Instant" and one.unit != "iso":
        return chance.choice(["{}", "{}.0", "{}.25", "{}e0"]).format(chance.randint(-(10**9), 2 * 10**9))
    if name == "Instant":
        day = f"{chance.randint(1700, 2199)}-{chance.randint(1, 12):02}-{chance.randint(1, 28):02}"
        time = f"{chance.randint(0, 23):02}:{chance.randint(0, 59):02}:{chance.randint(0, 59):02}"
        offset = chance.choice(["Z", "+01:00", "-0530", "+09", "" if one.zone else "Z"])
        return f'"{day}{chance.choice("T ")}{time}{chance.choice(["", ".5", ".123456789"])}{offset}"'
    if name in ("String", "char"):
        texts = ["a", "b", "Z", "\x7f"] if name == "char" or one.column.encoding != "UTF_8" else _WORDS
        return json.dumps(chance.choice(texts), ensure_ascii=chance.random() < 0.3)
    return chance.choice(["{}", "{}", "{}.0", "{}e0"]).format(chance.randint(-127, 127))


def spoilt(chance: random.Random, value: str) -> str:
    """A value with another character in one place."""
    place = chance.randrange(len(value))
    return value[:place] + chr(chance.randint(0x20, 0x7E)) + value[place + 1 :]


def _fields(chance: random.Random, wanted: Sequence[tuple[str, Target]], share: float, odd: float) -> list[str]:
    blank = chance.choice(["", "", " ", "\t"])
    fields = []
    for name, one in wanted:
        if chance.random() < share:
            value = _odd(chance) if chance.random() < odd else suited(chance, one)
            if chance.random() < odd / 3:
                value = spoilt(chance, value)
            fields.append(f'"{name}"{blank}:{blank}{value}')
    if chance.random() < 0.2:
        name = chance.choice(["z", "y", "in", "ü", "k", "\\u0061"])
        fields.append(f'"{name}":{chance.choice(["1e5", "null", _UNWANTED, _odd(chance)])}')
    if chance.random() < 0.2:
        chance.shuffle(fields)
    return fields


def line(chance: random.Random, forms: Sequence[Target] = FORMS) -> bytes:
    """One line: mostly an object whose fields suit, sometimes changed in a few bytes."""
    share, odd = chance.choice([0.1, 0.3, 1.0]), chance.choice([0.0, 0.0, 0.03, 0.3])
    fields = _fields(chance, [(one.source, one) for one in forms if "." not in one.source], share, odd)
    if forms is FORMS and chance.random() < 0.4:
        deep = "{" + ",".join(_fields(chance, [("d", FORMS[-1])], 0.9, odd)) + "}"
        inner = _fields(chance, [("b", FORMS[-2])], 0.9, odd)
        inner.append(f'"deep":{deep}' if chance.random() < 0.8 else '"k":null')
        fields.append('"in":{' + ",".join(inner) + "}")
    made = bytearray(("{" + ",".join(fields) + "}").encode("utf-8", "surrogatepass"))
    if chance.random() < 0.2:
        for _ in range(chance.randint(1, 3)):
            place = chance.randrange(len(made) + 1)
            changes = [*_ODD, bytes([chance.randrange(256)])]
            made[place : place + chance.randint(0, 2)] = chance.choice(changes)
    return bytes(made).replace(b"\n", b"")


def compare(lines: int, seed: int) -> int:
    """Compares so many lines in blocks; how many the scanner took."""
    accepted = 0
    for number in range(-(-lines // BLOCK)):
        chance = random.Random(f"{seed} {number}")
        forms = CODED if number % 3 == 2 else FORMS
        block = block_of([line(chance, forms) for _ in range(BLOCK)])
        assert block is not None
        try:
            accepted += same(block, forms, KNOWN)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}, block {number}: {error}") from error
    return accepted


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Compares the scanner with the exact pass.")
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    print(f"{given.lines} lines compared, the scanner took {compare(given.lines, given.seed)}")
    sys.exit(0)

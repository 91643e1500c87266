"""Changes of a schema as data: the files in their order, the command for each, and what refuses it.

A column of a file is a ``Col``. Its ``key`` stands for values: two names with one key show the same values, whatever
the columns are called. All that a test expects follows from the keys and from the rows that were written.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any


@dataclass(frozen=True, slots=True)
class Col:
    """One column of a schema file: what its values are, and how the file declares it."""

    key: str
    type: str
    attributes: str = ""

    @property
    def partitioning(self) -> bool:
        """Whether it names the directories of the table."""
        return "Partitioning" in self.attributes

    def value(self, number: int) -> Any:
        """What row ``number`` has in it; every fourth row has null, but for the number of the row."""
        if self.key == "K":
            return number
        if number % 4 == 3:
            return None
        own = sum(map(ord, self.key))
        whole = ("long", "java.lang.Long", "int", "short", "java.math.BigDecimal")
        by_type = dict.fromkeys(("double", "float"), number + own / 8) | dict.fromkeys(whole, number * 100 + own)
        return by_type.get(self.type, f"{self.key}{number}")


Columns = dict[str, Col]


@dataclass(frozen=True, slots=True)
class Step:
    """One file, and the command that deploys it beside rows.

    ``start``: what a start says to the file before that, None: it deploys it. ``refused``: what every command says,
    None: nothing refuses it. ``empty``: the same for a table without rows. ``table`` is the name in the file; one
    that is no other table's by more than case is a table of its own for the command.
    """

    columns: Columns
    words: tuple[str, ...] = ()
    start: str | None = None
    refused: str | None = None
    empty: str | None = None
    table: str = "Event"


@dataclass(frozen=True, slots=True)
class Change:
    """Steps from the columns of the beginning; ``stale``: what a start with the first file says after them all."""

    first: Columns
    steps: tuple[Step, ...]
    stale: str | None = None

    @property
    def effective(self) -> bool:
        """Whether it changes columns beside rows; else all of it is refused, or means the same."""
        return any(step.refused is None and step.columns != self.first for step in self.steps)

    def columns(self, *, held: bool = True) -> Columns:
        """The columns after all steps; ``held``: the table had rows at each of them."""
        found = self.first
        for step in self.steps:
            if (step.refused if held else step.empty) is None:
                found = step.columns
        return found


DATE = Col("Date", "String", ' columnType="Partitioning"')
K, A, B, C, D = Col("K", "long"), Col("A", "long"), Col("B", "String"), Col("C", "double"), Col("D", "long")
CODEC = ' objectCodec="io.deephaven.util.codec.{}"'


P = Col("P", "java.math.BigDecimal", CODEC.format("BigDecimalCodec") + ' objectCodecArguments="18,6"')


def file_text(columns: Columns, table: str = "Event") -> str:
    """The schema file with these columns."""
    lines = [f'  <Column name="{name}" dataType="{c.type}"{c.attributes}/>' for name, c in columns.items()]
    head = f'<Table namespace="Test" name="{table}" storageType="NestedPartitionedOnDisk">'
    return "\n".join([head, *lines, "</Table>\n"])


FIRST: Columns = {"Date": DATE, "K": K, "A": A, "B": B, "C": C}
WITH_INT: Columns = {**FIRST, "I": Col("I", "int")}
WITH_SHORT: Columns = {**FIRST, "I": Col("I", "short")}
WITH_FLOAT: Columns = {**FIRST, "I": Col("I", "float")}
TEXTS = ' symbolTable="None"'


def without(*names: str, of: Columns = FIRST) -> Columns:
    return {name: column for name, column in of.items() if name not in names}


def instead(old: str, new: str, column: Col | None = None, of: Columns = FIRST) -> Columns:
    """The columns with another name in a place, and there another column if one is given."""
    return {new if name == old else name: column or c if name == old else c for name, c in of.items()}


def retyped(name: str, column: Col, of: Columns = FIRST) -> Step:
    """Another form of a column that has values: nobody may deploy it while there are rows."""
    return Step(instead(name, name, column, of), (), f"{name}: ", "E161")


def wider(name: str, kind: str, of: Columns, attributes: str = "") -> Step:
    """A column that becomes wider beside its values, and keeps them."""
    return Step(instead(name, name, Col(of[name].key, kind, attributes), of), (), f"{name} from ")


NO_B, N_FOR_B = without("B"), instead("B", "N")
DROP_B = Step(NO_B, ("--drop", "B"), "drops B")
RENAME_B = Step(N_FOR_B, ("--rename", "B=N"), "drops B")
older = partial("version {}, an older one, which {}".format)

CHANGES: dict[str, Change] = {
    "add": Change(FIRST, (Step({**FIRST, "D": D}),), older(1, "drops D")),
    "add between": Change(FIRST, (Step({"Date": DATE, "K": K, "D": D, "A": A, "B": B, "C": C}),), older(1, "drops D")),
    "add twice": Change(
        FIRST, (Step({**FIRST, "D": D}), Step({**FIRST, "D": D, "E": Col("E", "String")})), older(1, "drops D, E")
    ),
    "drop": Change(FIRST, (DROP_B,), older(1, "brings back B")),
    "drop two": Change(FIRST, (Step(without("B", "C"), ("--drop", "B", "--drop", "C"), "drops B, C"),), "brings back"),
    "drop, put back": Change(FIRST, (DROP_B, Step(FIRST, ("--restore", "1"), older(1, "brings back B")))),
    "drop, again of another type": Change(
        FIRST,
        (DROP_B, Step(instead("B", "B", Col("B as long", "long")))),
        "B: ",
    ),
    "rename": Change(FIRST, (RENAME_B,), older(1, "drops N")),
    "rename, back": Change(FIRST, (RENAME_B, Step(FIRST, ("--rename", "N=B"), "drops N"))),
    "rename, old name for another": Change(
        FIRST,
        (RENAME_B, Step({**N_FOR_B, "B": Col("another B", "String")})),
        older(1, "drops N"),
    ),
    "rename, old name for another at once": Change(
        FIRST, (Step({**N_FOR_B, "B": Col("B as long", "long")}, ("--rename", "B=N"), "B: "),), "B: "
    ),
    "rename in a ring": Change(
        FIRST,
        (
            Step(
                {"Date": DATE, "K": K, "C": A, "A": B, "B": C},
                ("--rename", "A=C", "--rename", "B=A", "--rename", "C=B"),
                "C: ",
            ),
        ),
        "A: ",
    ),
    "rename in a chain": Change(
        FIRST,
        (
            Step(
                {"Date": DATE, "K": K, "B": A, "N": B, "A": D, "C": C},
                ("--rename", "B=N", "--rename", "A=B"),
                "B: ",
            ),
        ),
        "B: ",
    ),
    "rename in case": Change(FIRST, (Step(instead("B", "b"), ("--rename", "B=b"), "drops B"),), older(1, "drops b")),
    "other case": Change(
        FIRST, (Step(instead("B", "b", Col("b", "String")), ("--drop", "B"), "drops B"),), older(1, "drops b")
    ),
    "rename into a dropped name": Change(
        FIRST,
        (DROP_B, Step(instead("A", "B", of=NO_B), ("--rename", "A=B"), "drops A")),
        "B: ",
    ),
    "rename, drop, add": Change(
        FIRST,
        (Step({"Date": DATE, "K": K, "D": D, "N": B, "C": C}, ("--rename", "B=N", "--drop", "A"), "drops A, B"),),
        older(1, "drops D, N"),
    ),
    "retype, smaller": Change(FIRST, (retyped("A", Col("A as int", "int")),)),
    "retype, wider": Change(WITH_INT, (wider("I", "long", WITH_INT),), "I: long"),
    "retype, wider twice": Change(WITH_SHORT, (wider("I", "int", WITH_SHORT), wider("I", "long", WITH_INT)), "I: long"),
    "retype, wider float": Change(WITH_FLOAT, (wider("I", "double", WITH_FLOAT),), "I: double"),
    "retype, wider and renamed": Change(
        WITH_INT, (Step(instead("I", "J", Col("I", "long"), WITH_INT), ("--rename", "I=J"), "drops I"),), "drops J"
    ),
    "retype, wider, dropped and back": Change(
        WITH_INT,
        (
            wider("I", "long", WITH_INT),
            Step(FIRST, ("--drop", "I"), "drops I"),
            Step({**FIRST, "I": Col("I", "long")}, ("--restore", "2"), "brings back I"),
        ),
        "I: long",
    ),
    "retype, text": Change(FIRST, (retyped("C", Col("C as text", "String")),)),
    "symbols to texts": Change(FIRST, (wider("B", "String", FIRST, TEXTS),), "B: String, stored as blob"),
    "texts to symbols": Change(
        instead("B", "B", Col("B", "String", TEXTS)),
        (retyped("B", Col("B", "String")),),
    ),
    "other charset": Change(FIRST, (retyped("B", Col("B", "String", ' encoding="UTF_16"')),)),
    "other spelling": Change(
        FIRST, (Step({**FIRST, "A": Col("A", "java.lang.Long"), "B": Col("B", "java.lang.String")}),)
    ),
    "reorder": Change(
        FIRST, (Step({"C": C, "Date": DATE, "B": B, "K": K, "A": A}, (), "the order of columns"),), older(1, "changes")
    ),
    "grouping": Change(
        FIRST,
        (Step(instead("B", "B", Col("B", "String", ' columnType="Grouping"')), (), "B from normal to grouping"),),
        older(1, "changes B from grouping"),
    ),
    "partitioning": Change(
        FIRST,
        (
            Step(
                {"Date": Col("Date", "String"), "K": K, "A": A, "B": Col("Day", "String", DATE.attributes), "C": C},
                (),
                "Date PARTITIONING",
                "E161",
            ),
        ),
    ),
    "two partitioning": Change(
        FIRST, (Step(instead("B", "B", Col("B", "String", DATE.attributes)), (), "E113", "E113", "E113"),)
    ),
    "codec": Change(
        FIRST,
        (Step(instead("B", "B", Col("B", "String", CODEC.format("BigDecimalCodec"))), (), "E117", "E117", "E117"),),
    ),
    "width": Change(
        FIRST, (Step(instead("B", "B", Col("B", "String", ' objectWidth="12"')), (), "E117", "E117", "E117"),)
    ),
    "a type with a codec": Change(FIRST, (Step({**FIRST, "P": P}),), older(1, "drops P")),
    "older file": Change(FIRST, (Step({**FIRST, "D": D}), Step(FIRST, ("--drop", "D"), older(1, "drops D")))),
    "table renamed": Change(FIRST, (Step(FIRST, (), "Test.Other", None, None, table="Other"),)),
    "table in other case": Change(FIRST, (Step(FIRST, (), "Test.event", "Test.Event", "Test.Event", table="event"),)),
}

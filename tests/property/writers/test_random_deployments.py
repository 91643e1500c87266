"""Random schemas deployed one after the other: each is refused and changes nothing, or every reader works after it."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from sparkhaven.readers.arrow.opening import open_table
from tests.support.commands import run, run_json
from tests.support.disks.contents import contents
from tests.support.streams.schema_site import DAY, TABLE, Site, schema

NAMES = ("A", "B", "C", "a", "D")
TYPES = ("int", "long", "String")
MERGES = ("", "", "", "deephaven", "parquet", "both")
Pairs = dict[str, str]  # column -> type, or old name -> new name


@dataclass
class Step:
    """A file, the words of its deployment, and whether rows, and which merge, come after it."""

    columns: Pairs
    rename: list[tuple[str, str]] = field(default_factory=list)
    drop: list[str] = field(default_factory=list)
    restore: int | None = None
    rows: bool = True
    merge: str = ""  # its format


@st.composite
def steps(draw: st.DrawFn) -> list[Step]:
    """Steps whose words mostly say what the file does to the one before."""
    columns: Pairs = {"A": "int", "B": "String"}
    made: list[Step] = []
    for _ in range(draw(st.integers(1, 4))):
        names = draw(st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique_by=str.lower))
        olds = draw(st.lists(st.sampled_from([*columns]), max_size=draw(st.integers(0, 2)), unique=True))
        rename = [(old, new) for old, new in zip(olds, draw(st.permutations(names)), strict=False) if old != new]
        former = {new: old for old, new in rename}
        file = {name: columns.get(former.get(name, name)) or draw(st.sampled_from(TYPES)) for name in names}
        if draw(st.integers(0, 5)) == 5:
            file[names[0]] = draw(st.sampled_from(TYPES))
        gone = [name for name in columns if name not in file and name not in dict(rename)]
        if draw(st.integers(0, 7)) == 7:
            gone.append(draw(st.sampled_from(NAMES)))
        restore = draw(st.none() | st.none() | st.integers(1, 3))
        step = Step(file, rename, gone, restore, draw(st.booleans()), draw(st.sampled_from(MERGES)))
        made.append(step)
        columns = file if draw(st.integers(0, 3)) < 3 else columns
    return made


class Model:
    """What rows a table has to show: the columns of each version by id, and values by id.

    ``gone``: names, types and ids of columns that went, in that order.
    """

    def __init__(self) -> None:
        self.ids: dict[str, int] = {}
        self.types: Pairs = {}
        self.gone: list[tuple[str, str, int]] = []
        self.rows: list[dict[int, Any]] = []
        self.next = 0

    def deploy(self, step: Step, texts: list[dict[str, int]]) -> None:
        """The columns of a file take their values by name, by a rename, or by their return; else they have none."""
        rename, then = dict(step.rename), dict[str, int]()
        if step.restore is not None and step.restore <= len(texts):
            then = texts[step.restore - 1]
            wanted = {number: name for name, number in then.items()}
            for name, number in self.ids.items():
                new = wanted.get(number, name)
                if new != name and new in step.columns and (name not in step.columns or name in then):
                    rename[name] = new
        former = {new: old for old, new in rename.items() if old in self.ids}
        ids: dict[str, int] = {}
        for name, kind in step.columns.items():
            old = former.get(name) or (name if name in self.ids and name not in former.values() else None)
            back = [n for *identity, n in self.gone if identity == [name, kind]]
            back.sort(key=lambda n: n in then.values())
            known = self.ids[old] if old is not None else back[-1] if back else None
            if known is None:
                known, self.next = self.next, self.next + 1
            ids[name] = known
        self.gone += [(name, self.types[name], n) for name, n in self.ids.items()]
        self.gone = [(name, kind, n) for name, kind, n in self.gone if n not in ids.values()]
        self.ids, self.types = ids, step.columns

    def merge(self) -> None:
        """History is without the values of columns that were dropped."""
        kept = {*self.ids.values()}
        self.rows = [{number: one for number, one in row.items() if number in kept} for row in self.rows]

    def shown(self) -> list[dict[str, Any]]:
        return [{name: row.get(number) for name, number in self.ids.items()} for row in self.rows]


def value(kind: str, number: int) -> Any:
    return str(number) if kind == "String" else number


def put(site: Site, model: Model, columns: Pairs, count: int) -> None:
    """A row for each of two epochs, with a value in every column."""
    for number in range(2 * count, 2 * count + 2):
        row = {name: value(kind, number) for name, kind in columns.items()}
        site.put(row)
        site.ingest()
        model.rows.append({model.ids[name]: row[name] for name in columns})


def same(found: list[dict[str, Any]], wanted: list[dict[str, Any]]) -> None:
    def key(row: dict[str, Any]) -> list[str]:
        return [f"{name}={row[name]}" for name in sorted(row)]

    assert sorted(found, key=key) == sorted(wanted, key=key)


def readable(site: Site, model: Model) -> None:
    names = [*model.ids]
    same(open_table(site.root, TABLE).to_arrow(names).to_pylist(), model.shown())
    shown = run(site.root, "sql", f"SELECT * FROM {TABLE}", "--limit", "100", "--json")
    assert shown.exit_code == 0, shown.output
    for words in (["read", TABLE], ["verify", "--deep"], ["schema", "show", TABLE], ["schema", "history", TABLE]):
        assert run(site.root, *words).exit_code == 0, words


def deployments(base: Path, made: list[Step]) -> None:
    site, model, texts = Site(base), Model(), list[dict[str, int]]()
    site.stream()
    columns: Pairs = {"A": "int", "B": "String"}
    site.write(schema(columns))
    model.deploy(Step(columns), texts)
    put(site, model, columns, 0)
    texts.append(model.ids)
    run(site.root, "partitions", "add", "Test", "0")
    for count, step in enumerate(made, 1):
        site.write(schema(step.columns))
        words = [f"--rename={old}={new}" for old, new in step.rename] + [f"--drop={name}" for name in step.drop]
        words += [] if step.restore is None else [f"--restore={step.restore}"]
        before = contents(site.root / "Schemas")
        code, told = run_json(site.root, "schema", "deploy", str(site.file), *words)
        if code:
            assert code == 2 and told["error"]["hint"] and told["error"]["found"], told
            after = contents(site.root / "Schemas")
            assert {path for path in after if path.suffix != ".lock"} >= {*before} and before.items() <= after.items()
            site.write(schema(columns))
        elif told["deployed"]:
            model.deploy(step, texts)
            texts.append(model.ids)
            columns = step.columns
        else:
            columns = step.columns
        readable(site, model)
        if step.rows:
            put(site, model, columns, count)
            readable(site, model)
        if step.merge:
            found = run(site.root, "merge", TABLE, "--date", DAY, "--local", "--format", step.merge)
            assert found.exit_code == 0, found.output
            model.merge()
            readable(site, model)
            assert run(site.root, "validate", TABLE, "--date", DAY).exit_code == 0


SWAP = Step({"A": "String", "B": "int"}, [("A", "B"), ("B", "A")])
SAME_NAME = Step({"A": "int", "C": "String", "B": "String"}, [("B", "C")])
CHAIN = Step({"B": "int", "C": "String"}, [("A", "B"), ("B", "C")])
CASE = Step({"a": "int", "B": "String"}, [("A", "a")])
TWICE = Step({"C": "int", "B": "String"}, [("A", "C"), ("B", "C")])
TWO_OF_ONE = Step({"C": "int", "D": "int", "B": "String"}, [("A", "C"), ("A", "D")])
DROP_AND_NEW = Step({"A": "String", "B": "String"}, [], ["A"])
OTHER_TYPE = Step({"A": "int", "C": "String", "B": "long"}, [("B", "C")], merge="deephaven")
DROPPED = Step({"B": "String"}, [], ["A"], merge="parquet")
OWN_NAME = Step({"A": "int", "B": "String"}, [("A", "A")])


@settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
@given(steps())
@example([SWAP])
@example([SAME_NAME])
@example([CHAIN])
@example([CASE])
@example([TWICE])
@example([TWO_OF_ONE])
@example([DROP_AND_NEW])
@example([OWN_NAME])
@example([OTHER_TYPE, SWAP, Step({"C": "int", "A": "String", "B": "long"}, [("A", "C"), ("C", "A")], merge="parquet")])
@example(
    [DROPPED, Step({"A": "String", "B": "String"}), Step({"B": "String", "A": "String"}, [("A", "B"), ("B", "A")])]
)
@example(
    [DROPPED, Step({"A": "String"}, [("B", "A")], merge="both"), Step({"A": "String", "B": "int"}, merge="parquet")]
)
@example([SWAP, Step({"A": "int", "B": "String"}, [], [], 1, merge="deephaven")])
@example([CASE, Step({"A": "int", "B": "String"}, [("a", "A")])])
@example([Step({"C": "int", "B": "String"}, [("A", "C")]), Step({"A": "int", "C": "int", "B": "String"})])
@example([Step({"B": "String"}, [], ["A"]), Step({"A": "int", "B": "String"}, [("B", "A")], [], 1)])
@example([Step({"B": "String"}, [], ["A"]), Step({"A": "String"}, [("B", "A")])])
def test_a_deployment_is_refused_or_every_reader_works_after_it(made: list[Step]) -> None:
    with tempfile.TemporaryDirectory() as base:
        deployments(Path(base), made)

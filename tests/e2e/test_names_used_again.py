"""Names of columns that are used again: renamed beside a new column, swapped, moved on; and every command after it.

Three dates: one whose rows are history before the change, one of which a location has rows of before and after it, and
one that begins after it. A plain list of rows says what each reader has to show after each command.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from sparkhaven import sql
from sparkhaven.readers.arrow.opening import open_table
from tests.support.commands import run
from tests.support.streams.dated_site import told
from tests.support.streams.schema_site import STREAM, TABLE, Site
from tests.support.tables.live_tables import Engine

DATES = {"s": "2026-11-20", "t": "2026-11-21", "u": "2026-11-22"}
TEXT, NUMBER, INSTANT = "String", "int", "Instant"
GROUPED, INDEXED = ' columnType="Grouping"', '<DataIndex columns="{}"/>'


@dataclass(frozen=True)
class Change:
    """Columns before and after, as name -> type, the renames, and the roles of the columns after it."""

    before: dict[str, str]
    rename: dict[str, str]
    after: dict[str, str]
    indexes: tuple[str, ...] = ()
    grouped: str = ""


CHANGES = {
    "new text": Change({"V": TEXT}, {"V": "W"}, {"W": TEXT, "V": TEXT}, ("W", "V")),
    "new number": Change({"V": TEXT}, {"V": "W"}, {"W": TEXT, "V": NUMBER}, ("V,W",), "V"),
    "grouped": Change({"V": TEXT}, {"V": "W"}, {"W": TEXT, "V": "long"}, (), "W"),
    "instant": Change({"V": "long"}, {"V": "W"}, {"W": "long", "V": INSTANT}, ("W",)),
    "swap": Change({"V": TEXT, "W": "double"}, {"V": "W", "W": "V"}, {"W": TEXT, "V": "double"}, ("V", "W")),
    "chain": Change(
        {"V": TEXT, "W": "long"}, {"V": "W", "W": "X"}, {"X": "long", "W": TEXT, "V": "double"}, ("W",), "X"
    ),
}


def text_of(columns: dict[str, str], indexes: tuple[str, ...] = (), grouped: str = "") -> str:
    lines = [
        f'<Column name="{name}" dataType="{kind}"{GROUPED if name == grouped else ""}/>'
        for name, kind in {"K": "long", **columns}.items()
    ]
    lines += [INDEXED.format(names) for names in indexes]
    return (
        '<Table namespace="Test" name="Event" storageType="NestedPartitionedOnDisk">'
        '<Partitions keyFormula="${autobalance_single}"/>'
        f'<Column name="Date" dataType="String" columnType="Partitioning"/>{"".join(lines)}</Table>\n'
    )


def value(kind: str, number: int) -> Any:
    if number % 5 == 4:
        return None
    if kind == INSTANT:
        return 1_700_000_000_000_000_000 + number
    return f"v{number % 3}" if kind == TEXT else number % 3 + (0.5 if kind == "double" else 0)


@dataclass
class World:
    """The site, and each row by its number: values by what a column is called now."""

    site: Site
    change: Change
    columns: dict[str, str]
    rows: dict[int, dict[str, Any]] = field(default_factory=dict)

    def put(self, stream: str, count: int = 4) -> None:
        for _ in range(count):
            number = len(self.rows)
            row = {name: value(kind, number) for name, kind in self.columns.items()}
            fields = {name: _json(kind, row[name]) for name, kind in self.columns.items()}
            self.site.put({"K": number, **fields}, stream)
            self.rows[number] = {"Date": DATES[stream], "K": number, **row}
        self.site.ingest(name=stream)

    def deploy(self) -> None:
        change = self.change
        self.site.write(text_of(change.after, change.indexes, change.grouped))
        words = [f"--rename={old}={new}" for old, new in change.rename.items()]
        self.site.deploy(*words)
        self.columns = change.after
        for row in self.rows.values():
            old = {change.rename.get(name, name): row.pop(name) for name in change.before}
            row |= {name: old.get(name) for name in change.after}

    def do(self, *words: str | Path) -> None:
        found = run(self.site.root, *words)
        assert found.exit_code == 0, (words, found.stdout, found.stderr, found.exception)

    def look(self, root: Path | None = None, rows: dict[int, dict[str, Any]] | None = None) -> None:
        """Arrow by all columns, by each alone, and by filters on each; SQL, and an engine."""
        root = root or self.site.root
        wanted = list((self.rows if rows is None else rows).values())
        names = ["Date", "K", *self.columns]
        assert _sorted(_plain(open_table(root, TABLE).to_arrow(names).to_pylist())) == _sorted(wanted)
        for name, kind in self.columns.items():
            one = _plain(open_table(root, TABLE).to_arrow(["K", name]).to_pylist())
            assert _sorted(one) == _sorted([{"K": row["K"], name: row[name]} for row in wanted])
            held = [row[name] for row in wanted]
            for given in dict.fromkeys(held):
                where = f"{name} IS NULL" if given is None else f"{name} = {_literal(kind, given)}"
                assert open_table(root, TABLE).count(where=where) == held.count(given), where
            if kind != INSTANT:
                given = next((one for one in held if one is not None), None)
                where = f'"{name}" IS NULL' if given is None else f'"{name}" = {_literal(kind, given)}'
                found = sql(root, f"SELECT count(*) AS n FROM {TABLE} WHERE {where}")
                assert found["n"].to_pylist() == [held.count(given)], where
        attached = Engine(root).attach("Test_Event")
        assert not attached.errors
        for name in [name for name, kind in self.columns.items() if kind == TEXT]:
            shown = sorted(attached.column(name), key=repr)
            assert shown == sorted((row[name] for row in wanted), key=repr)

    def sound(self) -> None:
        self.look()
        self.do("verify", "--deep")
        wrong = [line for line in told(self.site, "doctor") if line.get("state") == "wrong"]
        assert not wrong, wrong


def _json(kind: str, one: Any) -> Any:
    if kind != INSTANT or one is None:
        return one
    seconds, rest = divmod(one, 10**9)
    at = dt.datetime.fromtimestamp(seconds, dt.UTC)
    return at.strftime("%Y-%m-%dT%H:%M:%S") + f".{rest:09}Z"


def _literal(kind: str, one: Any) -> str:
    if kind == TEXT:
        return f"'{one}'"
    return f"'{_json(kind, one)}'" if kind == INSTANT else str(one)


def _plain(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: getattr(one, "value", one) for name, one in row.items()} for row in rows]


def _sorted(rows: list[dict[str, Any]]) -> list[str]:
    return sorted(repr(sorted(row.items())) for row in rows)


def world(base: Path, change: Change) -> World:
    site = Site(base)
    site.write(text_of(change.before))
    for stream, date in DATES.items():
        site.stream(stream)
        path = base / f"{stream}.toml"
        path.write_text(STREAM.format(name=stream, schema=site.file).replace("2026-11-22", date))
    return World(site, change, change.before)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["deephaven", "parquet"])
@pytest.mark.parametrize("name", CHANGES)
def test_every_command_after_names_were_used_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, form: str
) -> None:
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    one = world(tmp_path, CHANGES[name])
    old, both, late = DATES.values()
    day = {date: (TABLE, "--dates", date) for date in DATES.values()}
    one.put("s")
    one.put("t")
    for partition in ("0", "1"):
        one.do("partitions", "add", "Test", partition)
    one.do("merge", *day[old], "--local", "--format", form, "--only-partitions", "0")
    one.deploy()
    one.sound()
    one.put("t")
    one.put("u")
    one.put("t")  # a location of before, again
    one.sound()
    one.do("recover", TABLE)
    for words in (("validate",), ("truncate",), ("delete", "--grace", "0")):
        one.do(words[0], *day[old], *words[1:])
        one.look()
    one.put("s")  # late: beside history of before
    one.do("merge", *day[old], "--local")
    one.sound()
    one.do("validate", *day[old])
    for date in (both, late):
        one.do("merge", *day[date], "--local", "--format", form)
        one.do("validate", *day[date])
    one.sound()
    one.do("dates", "move", *day[old], "--to", "1")
    one.do("validate", *day[old])
    one.look()
    copies(one, tmp_path)
    one.do("truncate", *day[both])
    one.look()
    one.do("delete", *day[both], "--grace", "0")
    one.do("truncate", *day[old])
    one.do("delete", *day[old], "--grace", "0")
    one.do("dates", "detach", *day[both], "--out", tmp_path / "tape")
    one.look(rows={k: row for k, row in one.rows.items() if row["Date"] != both})
    one.do("dates", "attach", TABLE, tmp_path / "tape")
    one.sound()
    rewritten(one, day[old])
    one.do("merge", *day[old], "--local", "--rewrite")
    one.do("metadata", "update", TABLE)
    one.do("metadata", "validate", TABLE)
    gone = next(k for k, row in one.rows.items() if row["Date"] == old)
    one.do("delete-rows", TABLE, "--where", f"K = {gone}")
    del one.rows[gone]
    one.sound()
    for date in DATES.values():
        one.do("validate", *day[date])
    one.do("clean", TABLE)
    one.do("recover", TABLE)
    one.sound()


def copies(one: World, base: Path) -> None:
    """A snapshot that is restored, a mirror, and exported trees show the same."""
    one.do("snapshot", "--out", base / "copy")
    one.look(base / "copy")
    other = Site(base / "other") if (base / "other").mkdir() is None else None
    assert other is not None and run(other.root, "restore", base / "copy", TABLE).exit_code == 0
    one.look(other.root)
    one.do("mirror", one.site.root, base / "mirror")
    one.look(base / "mirror")
    one.do("compare", base / "mirror")
    for layout in ("flat", "nested"):
        out = base / f"tree-{layout}"
        one.do("export", TABLE, "--out", out, "--layout", layout)
        if layout == "flat":
            parts = [pq.read_table(path) for path in sorted(out.rglob("*.parquet"))]
            rows = [row for part in parts for row in _plain(part.select(["K", *one.columns]).to_pylist())]
            wanted = [{name: row[name] for name in ("K", *one.columns)} for row in one.rows.values()]
            assert _sorted(rows) == _sorted(wanted)


def rewritten(one: World, day: tuple[str, ...]) -> None:
    """A text column is computed from itself."""
    name = next((name for name, kind in one.columns.items() if kind == TEXT), None)
    if name is None:
        return
    one.do("rewrite-column", *day, "--set", f"{name}={name} || '!'", "--local")
    for row in one.rows.values():
        if row["Date"] == day[-1] and row[name] is not None:
            row[name] += "!"
    one.sound()

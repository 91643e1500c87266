"""Writes a golden root: ``python -m tests.golden.write_root FILE.tar.xz``, once for each release, with that release.

The root has every form of file that the release writes. ``given.json`` beside it has the rows that went in, by table:
they are kept apart from what the release reads. ``test_golden_roots`` opens each root that was ever written.
"""

from __future__ import annotations

import json
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa

import sparkhaven
from tests.support.commands import run
from tests.support.streams.schema_site import Site, schema
from tests.support.tables.intraday_rows import IntradayRows

TABLE = "Test.Event"
COLUMNS = {"A": "long", "G": "String", "N": "String", "C": "double", "I": "int"}
KINDS = {"G": ' columnType="Grouping"', "N": ' symbolTable="None" encoding="UTF_8"'}
INDEX = '  <DataIndex columns="A"/>\n'
STREAM = """name = "{name}"
table = "Test.Event"
schema = "{schema}"
[feed]
type = "files"
path = "{name}"
format = "json"
[partition]
internal = {{ fixed = "{name}" }}
value = {{ fixed = "{value}" }}
"""
DATES = {f"s{number}": f"2024-03-{number:02}" for number in range(1, 13)}
BESIDE = "Test.Beside"
TREE = b"""<Table namespace="Test" name="Beside" storageType="NestedPartitionedOnDisk">
  <Partitions keyFormula="${autobalance_single}"/>
  <Column name="Date" dataType="String" columnType="Partitioning"/>
  <Column name="N" dataType="long"/>
  <ExtendedStorage type="parquet:metadata"/>
</Table>
"""


class Writer(Site):
    """A site whose streams have a date each; ``given``: the rows that the table has."""

    def __init__(self, base: Path) -> None:
        super().__init__(base)
        self.write(schema(COLUMNS, INDEX, **KINDS))
        self.given: list[dict[str, Any]] = []
        for name in DATES:
            self.stream(name)

    def stream(self, name: str = "s", file: Path | None = None) -> str:
        path = self.base / f"{name}.toml"
        path.write_text(STREAM.format(name=name, schema=(file or self.file).name, value=DATES[name]))
        (self.base / name).mkdir(exist_ok=True)
        return str(path)

    def rows_of(self, name: str, count: int, *, kept: bool = True, first: int = 0, wide: int = 0) -> None:
        """One epoch with so many rows; null and empty texts among them."""
        rows = [
            {"A": n, "G": "xyz"[n % 3], "N": [None, "", f"né{n}"][n % 3], "C": n / 4, "I": n + wide}
            for n in range(first, first + count)
        ]
        self.numbers += 1
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (self.base / name / f"{self.numbers:03}.json").write_text(lines)
        self.ingest(name=name)
        if kept:
            self.given += [{"Date": DATES[name], **row} for row in rows]

    def date(self, name: str, *commands: list[str]) -> None:
        for words in commands:
            found = run(self.root, words[0], TABLE, "--dates", DATES[name], *words[1:])
            assert found.exit_code == 0, found.stderr

    def gone(self, name: str, *words: str) -> None:
        """Through the night."""
        night = [["merge", "--local", *words], ["validate"], ["truncate"], ["delete", "--grace", "0"]]
        self.date(name, *night)

    def dates(self, verb: str, name: str, *words: str) -> None:
        self.do_lines("dates", verb, TABLE, "--dates", DATES[name], *words)

    def corrected(self) -> None:
        """Rows that commands withdrew and deleted, and a column that one rewrote."""
        self.gone("s9")
        self.do_lines("delete-rows", TABLE, "--dates", DATES["s9"], "--where", "A = 2")
        self.gone("s10")
        self.do_lines("rewrite-column", TABLE, "--dates", DATES["s10"], "--set", "C = C + 1")
        self.do_lines("delete-rows", TABLE, "--dates", DATES["s11"], "--where", "A = 1")
        self.rows_of("s12", 3, kept=False, first=50)
        self.do("epochs", "undo", TABLE, "s12", "--epoch", "2")
        self.date("s12", ["merge", "--local"])
        deleted = {(DATES["s9"], 2), (DATES["s11"], 1)}
        self.given = [row for row in self.given if (row["Date"], row["A"]) not in deleted]
        for row in self.given:
            row["C"] += row["Date"] == DATES["s10"]

    def beside(self) -> list[dict[str, Any]]:
        """A table with a tree beside its history; its rows."""
        db = IntradayRows(self.root, TREE)
        for name in ("s1", "s2"):
            db.commit({("a", DATES[name]): pa.table({"N": pa.array(range(7), pa.int64())})})
        db.log.close()
        self.do_lines("merge", BESIDE, "--dates", DATES["s1"], "--local")
        return [{"Date": DATES[name], "N": n} for name in ("s1", "s2") for n in range(7)]

    def do_lines(self, *words: str) -> None:
        found = run(self.root, *words, "--json")
        assert found.exit_code == 0, found.stdout + found.stderr


def story(base: Path) -> tuple[Writer, list[dict[str, Any]]]:
    """All that is written, and the rows of the second table."""
    site = Writer(base)
    for name in DATES:
        site.rows_of(name, 5, kept=name not in ("s2", "s6"))
    site.gone("s1", "--format", "deephaven")
    site.gone("s2", "--format", "parquet")
    site.dates("drop", "s2", "--reason", "wrong venue")
    site.date("s3", ["merge", "--local", "--format", "both"], ["validate"], ["truncate"])
    site.rows_of("s4", 2, kept=False, first=3)
    site.date("s4", ["merge", "--local", "--dedupe", "A", "--keep", "first"])
    site.do("partitions", "add", "Test", "archive")
    site.gone("s5")
    site.dates("move", "s5", "--to", "archive")
    site.gone("s6", "--format", "both")
    site.dates("detach", "s6", "--out", str(base / "out"))
    site.date("s7", ["merge", "--local"])
    site.rows_of("s7", 2, first=10)
    site.date("s7", ["merge", "--local"])  # a supplement
    site.rows_of("s8", 3, first=20)  # rolled back, then taken again
    site.do("epochs", "rollback", TABLE, "s8", "--to", "1")
    site.write(schema({**COLUMNS, "I": "long", "X": "Instant"}, INDEX, **KINDS))
    site.deploy()
    site.rows_of("s7", 1, first=30)  # in the form from before
    (base / "s8" / "bad.json").write_text('{"A": "no number"}\n')
    site.rows_of("s8", 2, first=40)
    site.corrected()
    sparkhaven.save_table(site.root, "users.Saved", pa.table({"K": ["a", None, "b"], "V": [1, 2, None]}))
    beside = site.beside()
    site.do_lines("snapshot", "--out", str(base / "copy"))
    return site, beside


def main(out: Path) -> None:
    with tempfile.TemporaryDirectory() as directory:
        base = Path(directory) / "golden"
        base.mkdir()
        site, beside = story(base)
        for row in site.given:
            row["X"] = None
        given = {
            TABLE: site.given,
            BESIDE: beside,
            "users.Saved": [{"K": "a", "V": 1}, {"K": None, "V": 2}, {"K": "b", "V": None}],
        }
        (base / "given.json").write_text(json.dumps(given))
        with tarfile.open(out, "w:xz") as archive:
            for name in ("db", "out", "copy", "given.json", "Test.Event.schema", "s7.toml"):
                archive.add(base / name, name)


if __name__ == "__main__":
    main(Path(sys.argv[1]))

"""A database whose streams start with schema files that a test changes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sparkhaven.readers.arrow.opening import open_table
from tests.support.commands import run, run_json

TABLE, DAY = "Test.Event", "2026-11-22"
COLUMNS = {"A": "long", "B": "String", "C": "double"}
STREAM = """name = "{name}"
table = "Test.Event"
schema = "{schema}"
[feed]
type = "files"
path = "{name}"
format = "json"
[partition]
internal = {{ fixed = "{name}" }}
value = {{ fixed = "2026-11-22" }}
"""


def schema(columns: dict[str, str] = COLUMNS, extra: str = "", **attributes: str) -> str:
    lines = [f'  <Column name="{n}" dataType="{t}"{attributes.get(n, "")}/>' for n, t in columns.items()]
    head = '<Table namespace="Test" name="Event" storageType="NestedPartitionedOnDisk">\n  <Column name="Date"'
    head += ' dataType="String" columnType="Partitioning"/>'
    return "\n".join([head, *lines, f"{extra}</Table>\n"])


class Site:
    """A database with streams of one table; ``file`` is the schema that they name."""

    def __init__(self, base: Path) -> None:
        self.base, self.root, self.file = base, base / "db", base / "Test.Event.schema"
        self.write(schema())
        self.numbers = 0

    def write(self, text: str) -> None:
        self.file.write_text(text)

    def stream(self, name: str = "s", file: Path | None = None) -> str:
        path = self.base / f"{name}.toml"
        path.write_text(STREAM.format(name=name, schema=file or self.file))
        (self.base / name).mkdir(exist_ok=True)
        return str(path)

    def put(self, row: dict[str, Any], name: str = "s") -> None:
        self.numbers += 1
        (self.base / name / f"{self.numbers:03}.json").write_text(json.dumps(row) + "\n")

    def ingest(self, *words: str, name: str = "s", code: int = 0) -> str:
        found = run(self.root, "ingest", str(self.base / f"{name}.toml"), "--once", "--local", *words)
        assert found.exit_code == code, found.stderr
        return found.stderr

    def do(self, *words: str, code: int = 0) -> dict[str, Any]:
        found, value = run_json(self.root, *words)
        assert found == code, value
        return value

    def deploy(self, *words: str, code: int = 0) -> dict[str, Any]:
        return self.do("schema", "deploy", str(self.file), *words, code=code)

    def rows(self, *columns: str) -> list[dict[str, Any]]:
        """All rows by Arrow, by A."""
        found = open_table(self.root, TABLE).to_arrow(list(columns) or None).to_pylist()
        return sorted(found, key=lambda row: (row.get("A") is None, row.get("A"), repr(row)))

    def merge(self, *words: str) -> None:
        self.do("merge", TABLE, "--date", DAY, "--local", *words)

    def night(self) -> None:
        """Merge, validate, truncate, delete, and a deep verification after it."""
        self.merge()
        for words in (["validate"], ["truncate"], ["delete", "--grace", "0"]):
            self.do(words[0], TABLE, "--date", DAY, *words[1:])
        assert run(self.root, "verify", "--deep").exit_code == 0

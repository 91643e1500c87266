"""A database with two dates, each of a stream of its own, that went through the night: all rows are history."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sparkhaven.readers.arrow.opening import open_table
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.places import TablePlace
from tests.support.commands import run
from tests.support.streams.schema_site import STREAM, TABLE, Site
from tests.support.writers.merge_runs import FS

OLD, NEW = "2020-01-02", "2020-01-03"


class Dated(Site):
    """A site with a stream for each of two dates."""

    def stream(self, name: str = "s", file: Path | None = None) -> str:
        path = self.base / f"{name}.toml"
        text = STREAM.format(name=name, schema=file or self.file)
        path.write_text(text.replace("2026-11-22", {"s": OLD, "t": NEW}[name]))
        (self.base / name).mkdir(exist_ok=True)
        return str(path)

    def late(self, number: int, value: str) -> None:
        name = {OLD: "s", NEW: "t"}[value]
        self.put({"A": number, "B": value, "C": 0.5}, name)
        self.ingest(name=name)

    def over(self, value: str) -> None:
        for words in (["merge", "--local"], ["validate"], ["truncate"], ["delete", "--grace", "0"]):
            self.do(words[0], TABLE, "--dates", value, *words[1:])

    @property
    def place(self) -> TablePlace:
        return TablePlace(FS, Layout(self.root), TableName.parse(TABLE))

    def shown(self) -> list[int]:
        return sorted(open_table(self.root, TABLE).to_arrow(["A"])["A"].to_pylist())

    @staticmethod
    def of(base: Path) -> Dated:
        """Rows 0 and 1 of the first date, row 2 of the second."""
        site = Dated(base)
        site.stream("s")
        site.stream("t")
        for number, value in enumerate((OLD, OLD, NEW)):
            site.late(number, value)
        for value in (OLD, NEW):
            site.over(value)
        return site


def told(site: Site, *words: str | Path, code: int = 0) -> list[dict[str, Any]]:
    """The JSON lines of a command that ends with this code."""
    found = run(site.root, *words, "--json")
    assert found.exit_code == code, found.stdout + found.stderr
    return [json.loads(line) for line in found.stdout.splitlines()]

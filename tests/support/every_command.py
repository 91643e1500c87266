"""A call of every command. Those that change a database are one life of it: each has something to do in its turn."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.commands import run
from tests.support.streams.dated_site import NEW, OLD, Dated
from tests.support.streams.schema_site import COLUMNS, TABLE, schema

WAREHOUSE = ("jars", "class-archive")  # fill a cache of the user, from the network: they have no root
Call = tuple[str, ...]


def life(base: Path) -> tuple[Dated, dict[str, Call]]:
    """A site with input for two streams of one table, and the calls of its life."""
    site = Dated(base)
    site.stream("s")
    site.stream("t")
    for row in ({"A": 1, "B": "x", "C": 0.5}, {"A": 2, "B": "y", "C": 1.5}, {"A": "bad", "B": "z"}):
        site.put(row)
    for number in (3, 4):
        site.put({"A": number, "B": "x", "C": 0.5}, "t")
    for name in ("tape", "volume", "checkpoint", "wider"):
        (base / name).mkdir()
    (base / "wider" / "Test.Event.schema").write_text(schema({**COLUMNS, "E": "int"}))
    return site, calls_of(base)


def calls_of(base: Path) -> dict[str, Call]:
    """By command, a call of each that changes a database.

    In this order all do something, each to one date or stream, if ``prepare`` is called before.
    """
    old = "--dates", OLD
    return {
        "ingest": (str(base / "s.toml"), "--once", "--local"),
        "checkpoint repair": (str(base / "checkpoint"), TABLE, "s", "--repair"),
        "quarantine requeue": (TABLE, "s", "--from", str(base / "repaired.jsonl")),
        "quarantine drop": (TABLE, "s", "--all"),
        "epochs undo": (TABLE, "s", "--epoch", "1"),
        "epochs rollback": (TABLE, "s", "--to", "1"),
        "delete-rows": (TABLE, "--where", "A = 2"),
        "partitions add": ("Test", "0"),
        "partitions roll": ("Test", "--if-fuller-than", "99%", "--volume", str(base / "volume")),
        "merge": (TABLE, *old, "--local"),
        "validate": (TABLE, *old),
        "truncate": (TABLE, *old),
        "delete": (TABLE, *old, "--grace", "0"),
        "rewrite-column": (TABLE, *old, "--set", "C=C*2", "--local"),
        "dates move": (TABLE, *old, "--to", "1"),
        "clean": (TABLE,),
        "metadata update": (TABLE,),
        "dates adopt": (TABLE,),
        "dates detach": (TABLE, *old, "--out", str(base / "tape")),
        "dates attach": (TABLE, str(base / "tape")),
        "dates drop": (TABLE, *old),
        "dates expire": (TABLE, "--keep", "30 d", "--yes"),
        "import": (TABLE, "--from", str(base / "tree"), "--layout", "nested", "--dates", NEW),
        "schema deploy": (str(base / "wider" / "Test.Event.schema"),),
        "recover": (TABLE,),
        "streams remove": (TABLE, "t"),
        "restore": (str(base / "copy"), TABLE, "--replace", TABLE),
        "drop": (TABLE, "--yes", "--grace", "0"),
    }


def prepare(site: Dated, command: str) -> None:
    """What else has to be there before a command of a life has something to do."""
    base, new = site.base, ("--dates", NEW)
    if command == "quarantine requeue":
        (line,) = run(site.root, "quarantine", "list", TABLE, "s", "--json").stdout.splitlines()
        repaired = {**json.loads(line), "payload": '{"A": 5, "B": "z"}'}
        (base / "repaired.jsonl").write_text(json.dumps(repaired))
    before: dict[str, list[Call]] = {
        "ingest": [("ingest", str(base / "t.toml"), "--once", "--local")],
        "validate": [("merge", TABLE, *new, "--local")],
        "truncate": [("truncate", TABLE, *new)],
        "delete": [("delete", TABLE, *new, "--grace", "0")],
        "dates move": [("partitions", "add", "Test", "1")],
        "dates drop": [
            ("export", TABLE, "--out", str(base / "tree"), "--layout", "nested"),
            ("snapshot", TABLE, "--out", str(base / "copy")),
        ],
    }
    for words in before.get(command, ()):
        assert run(site.root, *words).exit_code == 0, words


def looks(base: Path) -> dict[str, Call]:
    """By command, a call of each that changes no database, over one that has lived."""
    wide, narrow = str(base / "wider" / "Test.Event.schema"), str(base / "Test.Event.schema")
    return {
        "read": (TABLE,),
        "sql": (f"SELECT count(*) FROM {TABLE}",),
        "serve": ("No.Table",),  # else it serves until somebody stops it
        "page": ("--out", str(base / "page.html")),
        "tables": (),
        "stats": (),
        "symbols": (TABLE,),
        "doctor": (),
        "verify": ("--deep",),
        "scrub": ("--rate", "1GB"),
        "compare": (str(base / "db"),),
        "inspect": (wide,),
        "export": (TABLE, "--out", str(base / "out"), "--layout", "nested"),
        "snapshot": ("--out", str(base / "again")),
        "mirror": (str(base / "db"), str(base / "second")),
        "epochs list": (TABLE, "s"),
        "epochs show": (TABLE, "s"),
        "streams list": (),
        "quarantine list": (TABLE, "s"),
        "partitions list": ("Test",),
        "metadata list": (TABLE,),
        "metadata validate": (TABLE,),
        "schema check": (wide,),
        "schema show": (TABLE,),
        "schema history": (TABLE,),
        "schema diff": (TABLE, wide),
        "schema infer": (str(base / "s" / "001.json"), "--out", str(base / "inferred.schema"), "--table", "A.B"),
        "schema new": (
            narrow,
            str(base / "t"),
            "--name",
            "A.B",
            "--out",
            str(base / "A.B.schema"),
        ),
        "schema from-tbl": (str(base / "none.tbl"),),
    }

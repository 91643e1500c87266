"""A call of every command. Those that change a database are one life of it: each has something to do in its turn."""

from __future__ import annotations

from pathlib import Path

from tests.support.streams.dated_site import NEW, OLD, Dated
from tests.support.streams.schema_site import TABLE, schema

WAREHOUSE = ("jars", "class-archive")  # fill a cache of the user, from the network: they have no root
Call = tuple[str, ...]


def life(base: Path) -> tuple[Dated, dict[str, Call]]:
    """A site with input for two streams of one table, and by command what is called; in this order all do something."""
    site = Dated(base)
    one, other = site.stream("s"), site.stream("t")
    for row in ({"A": 1, "B": "x", "C": 0.5}, {"A": 2, "B": "y", "C": 1.5}, {"A": "bad", "B": "z"}):
        site.put(row)
    for number in (3, 4):
        site.put({"A": number, "B": "x", "C": 0.5}, "t")
    (base / "tape").mkdir()
    (base / "volume").mkdir()
    (base / "checkpoint").mkdir()
    wider = base / "wider.schema"
    wider.write_text(schema({"A": "long", "B": "String", "C": "double", "E": "int"}))
    (base / "wider" / "Test.Event.schema").parent.mkdir()
    wider = wider.rename(base / "wider" / "Test.Event.schema")
    both = "--dates", f"{OLD}..{NEW}"
    old = "--dates", OLD
    return site, {
        "ingest": (one, other, "--once", "--local"),
        "checkpoint repair": (str(base / "checkpoint"), TABLE, "s", "--repair"),
        "quarantine requeue": (TABLE, "s"),
        "quarantine drop": (TABLE, "s", "--all"),
        "epochs undo": (TABLE, "s", "--epoch", "1"),
        "epochs rollback": (TABLE, "s", "--to", "1"),
        "delete-rows": (TABLE, "--where", "A = 2"),
        "partitions add": ("Test", "0"),
        "partitions roll": ("Test", "--if-fuller-than", "99%", "--volume", str(base / "volume")),
        "merge": (TABLE, *both, "--local"),
        "validate": (TABLE, *both),
        "truncate": (TABLE, *both),
        "delete": (TABLE, *both, "--grace", "0"),
        "rewrite-column": (TABLE, *old, "--set", "C=C*2", "--local"),
        "dates move": (TABLE, *old, "--to", "0"),
        "clean": (TABLE,),
        "metadata update": (TABLE,),
        "dates detach": (TABLE, *old, "--out", str(base / "tape")),
        "dates attach": (TABLE, str(base / "tape")),
        "dates drop": (TABLE, *old),
        "dates expire": (TABLE, "--keep", "30 d", "--yes"),
        "import": (TABLE, "--from", str(base / "tree"), "--layout", "nested", "--replace"),
        "schema deploy": (str(wider),),
        "recover": (TABLE,),
        "migrate": (TABLE,),
        "streams remove": (TABLE, "t"),
        "restore": (str(base / "copy"), TABLE, "--replace", TABLE),
        "drop": (TABLE, "--yes", "--grace", "0"),
    }


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

"""What a command does with data a method does, with the same names: a new command has a method, or says why not."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any

import pytest

import sparkhaven
from tests.support.command_tree import command_of, commands

METHODS = {
    "clean": "Database.clean",
    "compare": "Database.compare",
    "dates adopt": "Table.adopt_dates",
    "dates attach": "Table.attach_dates",
    "dates detach": "Table.detach_dates",
    "dates drop": "Table.drop_dates",
    "dates expire": "Table.expire_dates",
    "dates move": "Table.move_dates",
    "delete": "Table.delete",
    "delete-rows": "Table.delete_rows",
    "doctor": "Database.doctor",
    "drop": "Database.drop_table",
    "epochs list": "Table.epochs",
    "epochs rollback": "Table.rollback",
    "epochs undo": "Table.undo",
    "export": "Table.export",
    "merge": "Table.merge",
    "partitions add": "Database.add_partition",
    "partitions list": "Database.partitions",
    "partitions roll": "Database.roll_partitions",
    "quarantine drop": "Table.drop_rejected",
    "quarantine list": "Table.rejected",
    "quarantine requeue": "Table.requeue",
    "read": "Table.snapshot + Snapshot.to_arrow",
    "recover": "Database.recover",
    "restore": "Database.restore",
    "rewrite-column": "Table.rewrite_columns",
    "schema deploy": "Database.create_table",
    "schema history": "Table.schema_versions",
    "snapshot": "Database.snapshot_to",
    "sql": "Database.sql",
    "stats": "Table.metadata",
    "streams list": "Table.streams",
    "streams remove": "Table.remove_stream",
    "symbols": "Table.symbols",
    "tables": "Database.tables",
    "truncate": "Table.truncate",
    "validate": "Table.validate",
    "verify": "Database.verify",
}


WITHOUT = {
    # of files, machines and processes, not of the data of a database
    *("checkpoint repair", "class-archive", "ingest", "inspect", "jars", "mirror", "page", "serve"),
    *("schema check", "schema diff", "schema from-tbl", "schema infer", "schema new"),
    # to come
    *("epochs show", "import", "metadata list", "metadata update", "metadata validate"),
    *("schema show", "scrub"),
}
SHOWN = {"yes", "limit", "out", "vertical", "show_all"}  # what is asked of people, and shown to them
RENAMED = {
    "doctor": {"words": "tables"},
    "read": {"source": "sources"},
    "restore": {"source": "snapshot", "names": "tables"},
    "rewrite-column": {"set_": "set"},
    "schema deploy": {"file": "schema"},
    "snapshot": {"names": "tables"},
}
ONLY_OF_THE_COMMAND = {
    "epochs list": {"stream"},
    "epochs undo": {"offsets", "source_file"},
    "merge": {"direct_io", "grace", "local", "roll_above", "roll_to", "status", "stop_on_error", "strict", "zone"},
    "quarantine list": {"epoch", "reason", "source", "state", "stream"},
    "restore": {"direct_io"},
    "rewrite-column": {"local", "memory", "stop_on_error", "workers"},
    "schema deploy": {"drop", "rename", "restore"},
    "snapshot": {"dry_run", "epoch"},
    "stats": {"all_tables", "as_of", "words"},
}
SPREAD = {
    "SnapshotKeywords": "sparkhaven.table",
    "ExportKeywords": "sparkhaven.jobs.operations.exporting",
    "MergeKeywords": "sparkhaven.jobs.operations.merging",
    "QueryKeywords": "sparkhaven.database",
    "RebuildKeywords": "sparkhaven.jobs.operations.recovering",
    "RejectedKeywords": "sparkhaven.jobs.operations.quarantine",
    "RewriteKeywords": "sparkhaven.jobs.operations.rewriting",
    "ValidationKeywords": "sparkhaven.jobs.operations.validating",
}


def taken(methods: str) -> dict[str, Any]:
    """What methods take, with defaults; of what they take as keywords of a class None."""
    every: dict[str, Any] = {}
    for method in methods.split(" + "):
        kind, _, name = method.partition(".")
        for each in inspect.signature(getattr(getattr(sparkhaven, kind), name)).parameters.values():
            if each.kind is each.VAR_KEYWORD:
                spread = str(each.annotation).removeprefix("Unpack[").removesuffix("]")
                every |= dict.fromkeys(getattr(import_module(SPREAD[spread]), spread).__annotations__)
            elif each.name == "self" and kind != "Database":
                every["name"] = None
            else:
                every.setdefault(each.name, None if each.default is each.empty else each.default)
    return every


def test_a_new_command_has_a_method() -> None:
    every = {" ".join(words) for words in commands()}
    assert METHODS.keys() | WITHOUT == every
    assert not METHODS.keys() & WITHOUT


@pytest.mark.parametrize("command", METHODS)
def test_a_method_takes_what_its_command_takes(command: str) -> None:
    shared = {"as_json", "verbose", "root", "result", "help"}
    options = [option for option in command_of(tuple(command.split())).params if option.name not in shared]
    method, renamed = taken(METHODS[command]), RENAMED.get(command, {})
    of_method = {option.name: renamed.get(option.name, option.name) for option in options}
    missing = {name for name, same in of_method.items() if same not in method}
    assert missing - SHOWN == ONLY_OF_THE_COMMAND.get(command, set())
    for option in options:
        ours = method.get(of_method[option.name])
        if ours not in (None, ()) and option.default is not None:
            assert ours == option.default, option.name

"""What changes a database is refused in a copy of one, and is logged: every command, every call of Python."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import sparkhaven
from sparkhaven.jobs.cli.context import DRY_IN_COPIES, LOGGED_TOO, OWN_ROWS, READ_ONLY
from sparkhaven.readers.arrow.opening import open_table
from sparkhaven.store.errors import SparkhavenError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.read_only_roots import FORM, require_writable
from sparkhaven.testing import make_table
from tests.support.command_tree import commands
from tests.support.commands import run, run_json
from tests.support.disks.contents import contents
from tests.support.every_command import WAREHOUSE, Call, calls_of, life, looks, prepare
from tests.support.places import REPOSITORY
from tests.support.streams.dated_site import OLD
from tests.support.streams.schema_site import TABLE

EVERY = {" ".join(path) for path in commands()}
LOG_OF = {"ingest": "IngestLog", "merge": "MergeLog", "validate": "ValidationLog"}


def test_every_command_is_known_to_change_a_database_or_not(tmp_path: Path) -> None:
    assert set(calls_of(tmp_path)) == EVERY - READ_ONLY, "a new command changes databases: add a call of it"
    assert set(looks(tmp_path)) == READ_ONLY - set(WAREHOUSE)
    assert READ_ONLY <= EVERY and LOGGED_TOO | OWN_ROWS <= EVERY


@pytest.mark.slow
def test_every_command_that_changes_a_database_is_logged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARKHAVEN_LOGS", "on")
    site, calls = life(tmp_path)
    for command, words in calls.items():
        prepare(site, command)
        found = run(site.root, *command.split(), *words)
        assert found.exit_code == 0, (command, found.output)
    rows = open_table(site.root, "SparkhavenInternal.AdminLog").to_arrow().to_pylist()
    logged = {row["Command"]: row for row in rows}
    assert set(logged) == (set(calls) - set(LOG_OF)) | LOGGED_TOO | OWN_ROWS
    for log in LOG_OF.values():
        assert open_table(site.root, f"SparkhavenInternal.{log}").to_arrow().num_rows
    affected = {command: row["Affected"] for command, row in logged.items() if command.startswith(("dates", "drop"))}
    assert affected == {
        "dates move": 1,
        "dates detach": 1,
        "dates attach": 1,
        "dates adopt": 0,
        "dates drop": 1,
        "dates expire": 2,
        "drop": 3,
    }


@pytest.fixture(scope="module", params=["snapshot", "mirror"])
def copied(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, Path]]:
    """Where all is, and a copy of a database that has lived up to its rewrites."""
    base: Path = tmp_path_factory.mktemp(request.param)
    site, calls = life(base)
    for command in ("ingest", "partitions add", "merge", "validate"):
        assert run(site.root, *command.split(), *calls[command]).exit_code == 0
    sparkhaven.save_table(site.root, "My.Own", pa.table({"A": [1, 2]}))
    copy = base / request.param
    words = ("snapshot", "--out", copy) if request.param == "snapshot" else ("mirror", site.root, copy)
    assert run(site.root, *words).exit_code == 0
    assert run(site.root, "snapshot", TABLE, "--out", base / "copy").exit_code == 0
    assert run(site.root, "export", TABLE, "--out", base / "tree", "--layout", "nested").exit_code == 0
    yield base, copy


def unchanged(copy: Path, before: dict[Path, bytes]) -> None:
    assert contents(copy.resolve()) == before
    assert run(copy, "verify", "--deep").exit_code == 0


@pytest.mark.slow
@pytest.mark.parametrize("trial", [(), ("--dry-run",)], ids=["", "dry run"])
def test_no_command_writes_a_copy(copied: tuple[Path, Path], tmp_path: Path, trial: Call) -> None:
    base, copy = copied
    before = contents(copy.resolve())
    calls = life(tmp_path)[1] | {
        "restore": (str(base / "copy"), TABLE, "--replace", TABLE),
        "import": (TABLE, "--from", str(base / "tree"), "--layout", "nested"),
    }
    for command, words in calls.items():
        code, value = run_json(copy, *command.split(), *words, *trial)
        if command in DRY_IN_COPIES:
            assert code == 0, (command, value)
            continue
        assert (code, value["error"]["what"]) == (2, f"the root is a {copy.name}, which is not written"), (
            command,
            value,
        )
        assert value["error"]["hint"] and value["error"]["where"].endswith("snapshot.json")
    for words in (("validate", TABLE, "--delete-after"), ("recover", TABLE, "events", "--from-locations")):
        assert run(copy, *words, *trial).exit_code == 2, words
    unchanged(copy, before)


@pytest.mark.slow
def test_every_other_command_works_in_a_copy_and_changes_nothing(copied: tuple[Path, Path], tmp_path: Path) -> None:
    base, copy = copied
    before = contents(copy.resolve())
    failing = {"serve", "schema from-tbl", "schema diff"}  # no such table, no such file, a difference
    words: Call
    for command, words in (looks(base) | {"compare": (str(base / "db"),), "merge --status": ()}).items():
        elsewhere = [word.replace(str(base / "again"), str(tmp_path / "again")) for word in words]
        found = run(copy, *command.split(), *elsewhere)
        assert "not written" not in found.output
        assert (found.exit_code == 0) == (command not in failing), (command, found.output)
    unchanged(copy, before)


READS = {"FrameWriter", "Snapshot", "DatabaseSnapshot", "__version__", "errors", "open_table", "read_frame", "register"}
READS |= {"feeds", "sql", "testing", "validator"}
BY_SPARK = {"deephaven_writer", "write_frame", "merge_frame"}  # tests/spark/test_copies.py
METHODS = {"Database", "Table"}
READ_BY = {"metadata", "epochs", "streams", "locations", "dates", "files", "merges", "validations", "rejected"}
READ_BY |= {"schema_versions", "history", "snapshot", "to_arrow", "to_batches", "to_pandas", "head", "to_spark", "name"}
READ_BY |= {"root", "schema", "tables", "table", "namespaces", "sql", "doctor", "snapshot_to", "export", "validate"}
READ_BY |= {"compare", "partitions", "recover", "symbols", "verify"}  # recover: in copies it only reports
CALLS: dict[str, Callable[[Path], Any]] = {
    "Table.append": lambda root: table(root).append({"A": [1]}, "s", internal={"fixed": "a"}, value={"fixed": OLD}),
    "Table.merge": lambda root: table(root).merge(OLD),
    "Table.merge_frame": lambda root: table(root).merge_frame(pa.table({"A": [1]}), OLD),
    "Table.truncate": lambda root: table(root).truncate(OLD),
    "Table.delete": lambda root: table(root).delete(OLD),
    "Table.delete_rows": lambda root: table(root).delete_rows("A = 1"),
    "Table.rewrite_columns": lambda root: table(root).rewrite_columns(OLD, set={"C": "C * 2"}),
    "Table.undo": lambda root: table(root).undo("events", 1),
    "Table.rollback": lambda root: table(root).rollback("events", 0),
    "Table.remove_stream": lambda root: table(root).remove_stream("events"),
    "Table.requeue": lambda root: table(root).requeue("events"),
    "Table.drop_rejected": lambda root: table(root).drop_rejected("events", everything=True),
    "Table.drop_dates": lambda root: table(root).drop_dates(OLD),
    "Table.expire_dates": lambda root: table(root).expire_dates("1d"),
    "Table.adopt_dates": lambda root: table(root).adopt_dates(),
    "Table.move_dates": lambda root: table(root).move_dates(OLD, "0"),
    "Table.detach_dates": lambda root: table(root).detach_dates(OLD, root.parent / "tape"),
    "Table.attach_dates": lambda root: table(root).attach_dates(root.parent / "tape"),
    "Database.create_table": lambda root: sparkhaven.Database(root).create_table(b"<Table/>"),
    "Database.drop_table": lambda root: sparkhaven.Database(root).drop_table(TABLE),
    "Database.clean": lambda root: sparkhaven.Database(root).clean(),
    "Database.add_partition": lambda root: sparkhaven.Database(root).add_partition("NS", "7"),
    "Database.roll_partitions": lambda root: sparkhaven.Database(root).roll_partitions("NS"),
    "Database.restore": lambda root: sparkhaven.Database(root).restore(root / "nothing"),
    "Database.save_table": lambda root: sparkhaven.Database(root).save_table("My.Own", pa.table({"A": [3]})),
    "save_table": lambda root: sparkhaven.save_table(root, "My.Own", pa.table({"A": [3]})),
    "save_table of a new one": lambda root: sparkhaven.save_table(root, "My.New", pa.table({"A": [3]})),
    "make_table": lambda root: make_table(root, TABLE, {"A": [9]}, date=OLD),
    "make_table of a new one": lambda root: make_table(root, "New.One", {"A": [9]}),
}


def table(root: Path) -> sparkhaven.Table:
    return sparkhaven.Database(root).table(TABLE)


def test_every_name_of_the_interface_is_known_to_change_a_database_or_not() -> None:
    calls = {name for name in CALLS if name.isidentifier()} - {"make_table"}
    assert set(sparkhaven.__all__) == READS | BY_SPARK | METHODS | calls
    methods = {
        f"{kind.__name__}.{name}"
        for kind in (sparkhaven.Database, sparkhaven.Table)
        for name in vars(kind)
        if not name.startswith("_")
    }
    assert {name for name in methods if name.partition(".")[2] not in READ_BY} == {
        name for name in CALLS if "." in name
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", CALLS)
def test_no_call_of_python_writes_a_copy(copied: tuple[Path, Path], name: str) -> None:
    _, copy = copied
    before = contents(copy.resolve())
    with pytest.raises(SparkhavenError, match="which is not written") as refused:
        CALLS[name](copy)
    assert refused.value.exit_code == 2 and refused.value.hint
    unchanged(copy, before)


READING = {
    *("step", "during", "read", "held", "open", "read_range", "read_block", "map", "map_range", "stat", "is_dir"),
    *("entries", "sizes", "identities", "names", "names_below", "small_files", "resolve", "free_bytes", "used_share"),
    *("boot_id", "user", "sync", "sync_dirs", "start_writeback", "drop_cached", "sync_guard", "record_lock"),
    *("read_together", "descriptors", "release", "may_write"),
}


LARGE = bytes(1 << 21)  # goes past the page cache where a file system does that


def arguments(fs: Fs, name: str, copy: Path, at: Path) -> list[Any]:
    """What a change of the disk takes, at a path of a copy."""
    manifest = copy / "snapshot.json"
    values = dict.fromkeys(("path", "source", "target", "one", "other"), at)
    others = {"paths": [at / "a"], "top": copy, "offset": 0, "start": 0, "end": 1, "data": LARGE, "length": 1}
    known = {**values, **others, "files": {at: b"x"}}
    if name in ("copy_range", "link", "hard_link", "symlink"):
        known["source"] = fs.open(manifest) if name == "copy_range" else manifest
    parameters = inspect.signature(getattr(fs, name)).parameters.values()
    return [known[parameter.name] for parameter in parameters if parameter.default is parameter.empty]


def file_systems() -> list[type[Fs]]:
    for module in (REPOSITORY / "store" / "io").glob("*.py"):
        import_module(f"sparkhaven.store.io.{module.stem}")
    return [Fs, *(kind for kind in Fs.__subclasses__() if kind.__module__.startswith("sparkhaven."))]


@pytest.mark.slow
@pytest.mark.parametrize("kind", file_systems())
def test_no_call_that_changes_the_disk_writes_a_copy(copied: tuple[Path, Path], kind: type[Fs]) -> None:
    _, copy = copied
    fs, before = kind(), contents(copy.resolve())
    changing = {name for name in dir(fs) if not name.startswith("_")} - READING
    assert {"replace", "write_at", "lock", "remove_tree"} <= changing
    for name in sorted(changing):
        for at in (copy / "Schemas", copy / "new", copy / "Schemas" / "x" / "y"):
            if name not in ("lock", "mkdirs", "keep_dirs") or not at.exists():
                with pytest.raises(SparkhavenError, match="which is not written"):
                    getattr(fs, name)(*arguments(fs, name, copy, at))
    assert contents(copy.resolve()) == before


def test_a_root_of_a_newer_form_is_read_and_not_written(tmp_path: Path) -> None:
    root = tmp_path / "db"
    make_table(root, "New.One", {"A": [9]})
    (root / FORM).write_text("1\n")
    make_table(root, "New.One", {"A": [10]})
    (root / FORM).write_text("2\n")
    before = contents(root)
    for words in (
        ["partitions", "add", "New", "0"],
        ["merge", "New.One", "--dates", OLD],
        ["drop", "New.One", "--yes"],
    ):
        code, value = run_json(root, *words)
        assert (code, value["error"]["found"], value["error"]["expected"]) == (2, "form 2", "form 1")
    with pytest.raises(SparkhavenError, match="newer form"):
        make_table(root, "New.One", {"A": [11]})
    assert open_table(root, "New.One").to_arrow(["A"]).num_rows == 2
    assert contents(root) == before


def test_a_manifest_of_another_program_above_a_root_is_none_of_ours(tmp_path: Path) -> None:
    (tmp_path / "snapshot.json").write_text("{}")
    make_table(tmp_path / "db", "New.One", {"A": [9]})
    require_writable(tmp_path / "db")
    make_table(tmp_path / "db", "New.One", {"A": [10]})

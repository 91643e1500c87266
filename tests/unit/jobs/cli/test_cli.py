"""The contract of the command line: help with examples, exit codes, and what stands on which output."""

from __future__ import annotations

import errno
import inspect
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from sparkhaven.jobs.cli import text_table
from sparkhaven.jobs.cli.context import CliContext, Commands
from sparkhaven.jobs.cli.main import COMMANDS as MODULES
from sparkhaven.jobs.cli.main import app
from sparkhaven.jobs.cli.options import Json, Verbose, memory_bytes
from sparkhaven.store.epochs.state.log_values import OffsetRange
from sparkhaven.store.errors import CorruptFileError, LockLostError, SettingsError, SparkhavenError
from tests.support.command_tree import command_of, commands, run
from tests.support.places import REPOSITORY
from tests.support.tables.small_tables import SmallTable

PRIVATE_WORDS = (
    *("unless told", "what is there", "foreseen", "made again", "go back", "while all that goes on"),
    *("power cut may take", "leaves the house", "at 3 a.m.", "gist", "parked", "spool", "survivors", "upkeep"),
)


def options(words: tuple[str, ...]) -> set[str]:
    return {option for parameter in command_of(words).params for option in parameter.opts}


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_every_command_has_a_summary_an_example_and_its_exit_codes(words: tuple[str, ...]) -> None:
    """The summary is a paragraph of its own that fits the list of commands; a stream file is ``STREAM.toml``."""
    summary, *rest = command_of(words).help.splitlines()
    assert summary.endswith(".") and len(summary) <= 60 and rest[:1] in ([], [""])
    found = run(*words, "--help")
    assert found.exit_code == 0
    examples, _, codes = found.stdout.partition("Example:")[2].partition("Exit codes: ")
    assert f"sparkhaven {' '.join(words)}" in examples
    assert re.fullmatch(r"0 (.+) · 1 (.+) · 2 (.+) · 3 worth retrying: (.+)\.", " ".join(codes.split()))
    assert "FILE.toml" not in found.stdout
    assert [word for word in PRIVATE_WORDS if word in " ".join(found.stdout.split())] == []


def test_an_option_has_one_form_and_one_help_in_all_commands() -> None:
    """``read`` takes several internal partitions, ``import`` a date for rows without one. ``merge --keep`` chooses a
    row of a key, ``dates expire --keep`` how long dates stay. ``dates move --to`` is a partition, elsewhere an epoch.
    ``import --from`` takes more than a directory.

    ``doctor --all`` shows what is well. ``--source`` of a quarantine is a place of the feed.
    """
    own = {("read", "--source"), ("read", "--epoch"), ("merge", "--grace")}
    own |= {("ingest", "--memory"), ("sql", "--memory"), ("serve", "--memory"), ("doctor", "--all")}
    own |= {("merge", "--zone"), ("read", "--out"), ("sql", "--out"), ("page", "--out")}
    own |= {
        ("export", "--out"),
        ("snapshot", "--out"),
        ("merge", "--keep"),
        ("dates", "--to"),
        ("import", "--from"),
        ("import", "--keep"),
    }
    own |= {("dates", "--out")}
    own |= {("drop", "--grace")}
    own |= {("rewrite-column", "--drop"), ("rewrite-column", "--rename")}  # in files, where a schema has them so
    own |= {("import", "--dates"), ("epochs", "--epoch"), ("delete-rows", "--where")} | {
        (words, name) for words in ("export", "import") for name in ("--layout", "--replace")
    }
    forms: dict[str, set[tuple[Any, ...]]] = {}
    for words in commands():
        for parameter in command_of(words).params:
            name = parameter.opts[0]
            if name.startswith("-") and not parameter.hidden and (words[0], name) not in own:
                kind = "quarantine" if words[0] == "quarantine" else ""
                forms.setdefault(kind + name, set()).add((tuple(parameter.opts), parameter.metavar, parameter.help))
                assert parameter.help and parameter.help.endswith("."), (words, name)
    assert {name: found for name, found in forms.items() if len(found) > 1} == {}


def test_a_stream_is_named_the_same_way_everywhere() -> None:
    for words in commands():
        positional = [each for each in command_of(words).params if not each.opts[0].startswith("-")]
        named = [(each.metavar or "").strip("[]") for each in positional]
        if "STREAM" in named:
            assert named[named.index("STREAM") - 1] == "NS.T", words


@pytest.mark.slow
@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_every_command_has_json_and_verbose(words: tuple[str, ...]) -> None:
    assert {"--json", "-v"} <= options(words)


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_a_typing_error_is_usage_and_reported_as_json_when_asked(words: tuple[str, ...]) -> None:
    found = run(*words, "--no-such-option", "--json")
    assert found.exit_code == 2
    reported = json.loads(found.stdout)["error"]
    assert (reported["exit_code"], reported["type"]) == (2, "NoSuchOption")
    assert "No such option" in found.stderr
    assert run(*words, "--no-such-option").stdout == ""


def test_help_of_the_whole_names_the_exit_codes() -> None:
    found = run("--help")
    assert found.exit_code == 0
    assert "3 worth" in found.stdout and "SPARKHAVEN_ROOT" in found.stdout


def test_no_command_and_an_unknown_one_are_usage() -> None:
    for words in ((), ("epochs",)):
        found = run(*words)
        assert found.exit_code == 2
        assert found.stderr.startswith("Usage: ") and "to do" not in found.stderr
    found = run("ingst")
    assert found.exit_code == 2
    assert "'ingest'" in found.stderr


def test_without_a_root_the_way_to_name_one_is_reported() -> None:
    found = run("ingest", "x.toml")
    assert found.exit_code == 2
    assert "no database root" in found.stderr and "SPARKHAVEN_ROOT" in found.stderr


def test_the_root_comes_from_the_environment_too(tmp_path: Path) -> None:
    found = CliRunner().invoke(app, ["ingest", str(tmp_path / "x.toml")], env={"SPARKHAVEN_ROOT": str(tmp_path)})
    assert found.exit_code == 2
    assert "no such stream file" in found.stderr


@pytest.mark.parametrize("words", [["tables"], ["stats"], ["verify"], ["recover"], ["read", "A.B"]], ids=" ".join)
def test_a_root_that_is_not_there_is_reported(words: list[str], tmp_path: Path) -> None:
    found = run("--root", str(tmp_path / "typo"), *words)
    assert found.exit_code == 2
    assert "no such database root" in found.stderr and "typo" in found.stderr
    assert not (tmp_path / "typo").exists()


@pytest.mark.parametrize(
    "words",
    [
        ["tables"],
        ["stats"],
        ["verify"],
        ["recover"],
        ["doctor"],
        ["clean"],
        ["scrub"],
        ["merge", "--status"],
        ["sql", "select 1"],
    ],
    ids=" ".join,
)
def test_a_directory_of_something_else_is_no_root_and_stays_as_it_is(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "some.file").write_text("")
    found = run("--root", str(tmp_path), "--logs", *words)
    assert found.exit_code == 2
    assert "the directory is no database" in found.stderr and str(tmp_path) in found.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["some.file"]


@pytest.mark.parametrize("words", [["recover"], ["clean"]], ids=" ".join)
def test_a_command_makes_no_database_of_a_new_volume(words: list[str], tmp_path: Path) -> None:
    (tmp_path / "lost+found").mkdir()
    assert run("--root", str(tmp_path), "--logs", *words).exit_code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["lost+found"]


def test_an_empty_root_has_no_tables(tmp_path: Path) -> None:
    for words, key in ((["tables"], "tables"), (["verify"], "findings"), (["recover"], "findings")):
        found = run("--root", str(tmp_path), *words, "--json")
        assert (found.exit_code, json.loads(found.stdout)[key]) == (0, [])


def test_schema_check_finds_and_shows(tmp_path: Path) -> None:
    shipped = str(REPOSITORY / "conf/schemas/Nyc13.Flight.schema")
    good = run("schema", "check", shipped, "--json")
    assert (good.exit_code, json.loads(good.stdout)["errors"]) == (0, 0)
    broken = tmp_path / "A.B.schema"
    broken.write_text('<Table namespace="A" name="B"><Column name="x"/></Table>')
    bad = run("schema", "check", shipped, str(broken), "--json")
    assert bad.exit_code == 1
    found = [json.loads(line) for line in bad.stdout.splitlines()]
    assert found[0]["errors"] == 0 and found[1]["errors"] > 0
    assert {"code", "line", "column", "element", "rule"} <= found[1]["findings"][0].keys()
    shown = json.loads(run("schema", "show", shipped, "--json").stdout)
    assert shown["table"] == "Nyc13.Flight" and len(shown["columns"]) == 20
    assert "carrier" in run("schema", "show", shipped).stdout


def test_inspect_tells_damage_by_exit_code(tmp_path: Path) -> None:
    damaged = tmp_path / "flights.log"
    damaged.write_bytes(b"SHVLOG1\nxx")
    found = run("inspect", str(damaged), "--json")
    assert found.exit_code == 1
    assert json.loads(found.stdout)["sound"] is False


# --- errors ----------------------------------------------------------------------------------------------------


def program(raises: BaseException | None, value: dict[str, Any] | None = None) -> typer.Typer:
    made = typer.Typer(cls=Commands, rich_markup_mode=None)

    @made.callback()
    def _options() -> None:
        """Makes it a group."""

    @made.command()
    def work(ctx: typer.Context, as_json: Json = False, verbose: Verbose = False) -> None:
        cli: CliContext = ctx.obj
        cli.note("working")
        if raises is not None:
            raise raises
        cli.result(value or {}, "done")

    return made


ERRORS: list[tuple[SparkhavenError, int]] = [
    (SettingsError("s", where="w", expected="e", found="f", hint="h"), 2),
    (CorruptFileError("c", where="/x", offset=7), 1),
    (LockLostError("l", where="/lock", found="pid 7"), 3),
]


@pytest.mark.parametrize(("error", "code"), ERRORS, ids=lambda value: type(value).__name__)
def test_errors_of_ours_give_their_exit_code_and_all_their_parts(error: SparkhavenError, code: int) -> None:
    plain = CliRunner().invoke(program(error), ["work"])
    assert (plain.exit_code, plain.stdout) == (code, "")
    assert str(error) in plain.stderr and "Traceback" not in plain.stderr
    reported = CliRunner().invoke(program(error), ["work", "--json"])
    assert reported.exit_code == code
    found = json.loads(reported.stdout)["error"]
    assert (found["type"], found["what"], found["where"]) == (type(error).__name__, error.what, error.where)
    assert (found["exit_code"], found["retryable"]) == (code, error.retryable)
    assert found.get("offset") == error.extra.get("offset")


def test_an_error_that_nobody_foresaw_is_one_line_and_a_traceback_only_when_asked() -> None:
    plain = CliRunner().invoke(program(ValueError("odd\nlong")), ["work"])
    assert plain.exit_code == 1
    assert "ValueError: odd\n" in plain.stderr and "-v" in plain.stderr
    assert "Traceback" not in plain.stderr and "long" not in plain.stderr
    loud = CliRunner().invoke(program(ValueError("odd")), ["work", "-v", "--json"])
    assert loud.exit_code == 1
    assert "Traceback" in loud.stderr
    assert json.loads(loud.stdout)["error"]["type"] == "ValueError"


@pytest.mark.parametrize(("number", "code"), [(errno.ENOSPC, 3), (errno.EACCES, 2), (errno.ENOTDIR, 1)])
def test_what_the_system_refuses_is_reported_with_the_file(number: int, code: int) -> None:
    found = CliRunner().invoke(program(OSError(number, os.strerror(number), "/db/x.dat")), ["work"])
    assert found.exit_code == code
    assert "/db/x.dat" in found.stderr and os.strerror(number) in found.stderr and "Traceback" not in found.stderr


def test_an_interrupt_is_130_and_no_traceback() -> None:
    found = CliRunner().invoke(program(KeyboardInterrupt()), ["work", "--json"])
    assert found.exit_code == 130
    assert found.stdout == "" and "Traceback" not in found.stderr


def test_results_stand_alone_on_standard_output(tmp_path: Path) -> None:
    plain = CliRunner().invoke(program(None), ["work"])
    assert (plain.exit_code, plain.stdout, plain.stderr) == (0, "done\n", "working\n")
    reported = CliRunner().invoke(program(None, {"path": tmp_path, "rows": 3}), ["work", "--json"])
    assert json.loads(reported.stdout) == {"path": str(tmp_path), "rows": 3}


def test_tables_are_whole_when_nobody_looks(capsys: pytest.CaptureFixture[str]) -> None:
    text_table.table(["name", "rows"], [["x" * 300, 1234567], ["y", None]])
    out = capsys.readouterr().out
    assert "x" * 300 in out and "1,234,567" in out and "…" not in out


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "code"), [(["--help"], 0), (["nonsense"], 2), (["ingest", "none.toml", "--json"], 2)]
)
def test_exit_codes_of_the_process(words: list[str], code: int, tmp_path: Path) -> None:
    line = [sys.executable, "-m", "sparkhaven", "--root", str(tmp_path), *words]
    done = subprocess.run(line, cwd=REPOSITORY, capture_output=True, text=True, check=False)
    assert done.returncode == code
    if "--json" in words:
        assert "error" in json.loads(done.stdout)


# --- names -----------------------------------------------------------------------------------------------------


def test_no_module_of_jobs_hides_a_package_when_it_is_submitted() -> None:
    """spark-submit puts the directory of the entry first on the path: a module there hides any package of its name."""
    names = {path.stem for path in (REPOSITORY / "jobs").glob("*.py")}
    ours = {"sparkhaven", "store", "ingest", "writers", "readers", "conf", "jobs"}
    others = {"pyspark", "pyarrow", "numpy", "duckdb", "typer", "rich", "pydantic", "pandas", "py4j", "xxhash"}
    assert not names & (ours | others | set(sys.stdlib_module_names))


def test_the_table_of_commands_names_every_module_with_commands() -> None:
    named = {module for module, _ in MODULES.values()}
    registering = {
        ".".join(path.relative_to(REPOSITORY).with_suffix("").parts)
        for path in (REPOSITORY / "sparkhaven" / "jobs").rglob("*.py")
        if "def register(app: typer.Typer)" in path.read_text(encoding="utf-8")
    }
    assert registering == named


@pytest.mark.parametrize("name", sorted(MODULES))
def test_the_list_of_commands_says_what_the_help_of_each_says(name: str) -> None:
    assert inspect.cleandoc(command_of((name,)).help).splitlines()[0] == MODULES[name][1]


@pytest.mark.slow
def test_help_is_quick() -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "sparkhaven.jobs.cli.main", "--help"],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0
    loaded = {line.rsplit("|", 1)[-1].strip() for line in done.stderr.splitlines()}
    assert not {"pyspark", "pandas", "duckdb"} & loaded, "these take a second: import them where a job starts"
    assert "sparkhaven.jobs.cli.options" in loaded
    assert not {module for module, _ in MODULES.values()} & loaded, "the help needs the table of commands only"
    assert not [name for name in loaded if name.startswith("sparkhaven.jobs.monitor.doctor")]


def test_epochs_show_offsets(tmp_path: Path) -> None:
    small = SmallTable(tmp_path)
    small.commit(ranges=(OffsetRange("t", 0, 5, 20), OffsetRange("t", 0, 20, 22)))
    small.commit(ranges=(OffsetRange("t", 0, 30, 40),), gaps=(OffsetRange("t", 0, 22, 30),))
    small.log().close()
    listed = json.loads(run("--root", str(tmp_path), "epochs", "list", "NS.T", "s", "--json").stdout)["epochs"]
    assert [(entry["messages"], entry["ranges"], entry["gaps"]) for entry in listed] == [
        (17, [["t/0", 5, 20], ["t/0", 20, 22]], []),
        (10, [["t/0", 30, 40]], [["t/0", 22, 30]]),
    ]
    shown = json.loads(run("--root", str(tmp_path), "epochs", "show", "NS.T", "s", "--epoch", "1", "--json").stdout)
    assert (shown["positions"], shown["files"]) == ({"t/0": 22}, 0)
    assert "t/0" in run("--root", str(tmp_path), "epochs", "show", "NS.T", "s").stdout
    assert "messages" in run("--root", str(tmp_path), "epochs", "list", "NS.T", "s").stdout


@pytest.mark.parametrize(("text", "amount"), [("1g", 1 << 30), ("512m", 512 << 20), ("1GiB", 1 << 30), ("7", 7)])
def test_an_amount_of_memory_has_one_form_in_all_commands(text: str, amount: int) -> None:
    assert memory_bytes(text) == amount


@pytest.mark.parametrize("text", ["", "0", "0g", "1 gram", "-1g"])
def test_what_is_no_amount_of_memory_is_an_error_of_settings(text: str) -> None:
    with pytest.raises(SettingsError, match="--memory"):
        memory_bytes(text)

"""Values of the command line are what Typer's adapters make of them, and most need no adapter."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from typer import core
from typer.testing import CliRunner

from sparkhaven.jobs.cli.startup import plain_values as module
from sparkhaven.jobs.cli.startup.plain_values import plain_values
from tests.support.places import REPOSITORY
from tests.support.tables.small_tables import SmallTable

LEFT_OUT = {
    "duckdb", "email.message", "http.client", "numpy.ma", "pandas", "pyarrow.compute", "pyarrow.csv",
    "pyarrow.dataset", "pyarrow.parquet", "pydantic", "pyspark", "sqlite3", "ssl", "typer._adapters", "urllib.request",
}  # fmt: skip


def command() -> tuple[Any, list[Any]]:
    """A command with parameters of all kinds, and the values that it was given."""
    app, given = typer.Typer(rich_markup_mode=None), []

    @app.command()
    def work(
        name: str,
        rest: Annotated[list[str] | None, typer.Argument()] = None,
        limit: Annotated[int, typer.Option(min=0, max=99)] = 20,
        share: float = 0.5,
        ratio: Annotated[float, typer.Option(min=0, max=1)] = 1.0,
        out: Path | None = None,
        there: Annotated[Path | None, typer.Option(exists=True)] = None,
        feed: Annotated[list[Path] | None, typer.Option()] = None,
        date: Annotated[list[str] | None, typer.Option()] = None,
        quick: bool = False,
        odd: Annotated[str | None, typer.Option(parser=str.upper)] = None,
    ) -> None:
        given.append((name, rest, limit, share, ratio, out, there, feed, date, quick, odd))

    return app, given


@pytest.fixture
def adapters(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """The parameters that Typer was asked to read."""
    plain_values()
    built = vars(core)[module.BUILD]
    assert isinstance(built, module._Builder)
    asked: list[Any] = []
    build = built._build
    monkeypatch.setattr(built, "_build", lambda descriptor: asked.append(descriptor.annotation) or build(descriptor))
    yield asked


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        (["NS.T"], 0),
        (["NS.T", "a", "b", "--limit", "7", "--out", "/no/such", "--feed", "x", "--feed", "y", "--date", "d"], 0),
        (["NS.T", "--quick", "--no-quick", "--share", "1"], 0),
        (["", "--limit", "99", "--out", "/"], 0),
        (["NS.T", "--odd", "text"], 1),
        (["NS.T", "--there", "/"], 1),
        (["NS.T", "--there", "/no/such"], 1),
        (["NS.T", "--limit", "100"], 1),
        (["NS.T", "--limit", "-1"], 1),
        (["NS.T", "--limit", " 7"], 1),
        (["NS.T", "--limit", "٧"], 1),
        (["NS.T", "--limit", "x"], 1),
        (["NS.T", "--share", "x"], 1),
        (["NS.T", "--share", "2.50"], 0),
        (["NS.T", "--share", "0.001", "--ratio", "0.25"], 0),
        (["NS.T", "--share", "1e3"], 1),
        (["NS.T", "--share", "-1"], 1),
        (["NS.T", "--share", "nan"], 1),
        (["NS.T", "--share", ".5"], 1),
        (["NS.T", "--ratio", "1.5"], 1),
        ([], 0),
    ],
)
def test_values_and_errors_are_those_of_typer(
    adapters: list[Any], monkeypatch: pytest.MonkeyPatch, words: list[str], asked: int
) -> None:
    ours, values = command()
    found = CliRunner().invoke(ours, words)
    assert len(adapters) <= asked, adapters
    built = vars(core)[module.BUILD]
    assert isinstance(built, module._Builder)
    monkeypatch.setattr(core, module.BUILD, built._build)
    theirs, expected = command()
    wanted = CliRunner().invoke(theirs, words)
    assert (found.exit_code, found.output) == (wanted.exit_code, wanted.output)
    assert repr(values) == repr(expected)


@pytest.mark.parametrize("word", ["on", "off", "true", "false", "1", "0", "Off", "yes", "x", ""])
def test_switches_in_variables_of_the_environment_are_those_of_typer(
    adapters: list[Any], monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    def switch() -> tuple[Any, list[Any]]:
        app, given = typer.Typer(rich_markup_mode=None), []

        @app.command()
        def work(logs: Annotated[bool, typer.Option("--logs/--no-logs", envvar="NS_LOGS")] = True) -> None:
            given.append(logs)

        return app, given

    monkeypatch.setenv("NS_LOGS", word)
    ours, values = switch()
    found = CliRunner().invoke(ours, [])
    assert bool(adapters) == (word in ("Off", "yes", "x"))
    built = vars(core)[module.BUILD]
    assert isinstance(built, module._Builder)
    monkeypatch.setattr(core, module.BUILD, built._build)
    theirs, expected = switch()
    wanted = CliRunner().invoke(theirs, [])
    assert (found.exit_code, found.output, values) == (wanted.exit_code, wanted.output, expected)


def test_a_typer_that_works_otherwise_goes_on_as_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(core, module.BUILD)
    plain_values()
    assert not hasattr(core, module.BUILD)


@pytest.mark.slow
def test_a_short_read_imports_nothing_that_it_does_not_need(tmp_path: Path) -> None:
    small = SmallTable(tmp_path)
    small.add("a", "2026-11-20", {"Size": [1, None, 3]})
    small.log().close()
    code = (
        "import atexit, sys; sys.argv[1:] = sys.argv[1].split(); from sparkhaven.jobs.cli.main import main\n"
        "atexit.register(lambda: print(*sorted(sys.modules), file=sys.stderr)); main()"
    )
    line = [sys.executable, "-c", code, f"--root {tmp_path} read NS.T --columns Size --limit 2"]
    done = subprocess.run(line, cwd=REPOSITORY, capture_output=True, text=True, check=True)
    assert done.stdout.split()[:3] == ["Size", "1", "-"], done.stdout
    assert LEFT_OUT & set(done.stderr.split()) == set()

"""What messages tell a person to run is taken by the command line: commands, their arguments, their options."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from sparkhaven.jobs.cli.main import app
from tests.support.docs.hints import calls, fault, known_options, messages, options_named, without_program
from tests.support.hints.story import APPLICATIONS
from tests.support.places import REPOSITORY
from tests.support.tables.small_tables import SmallTable

OTHERS = {"--help", "--py-files", "--packages", "--jars", "--include_imports", "--descriptor_set_out", "--long"}


@pytest.mark.slow
def test_every_command_that_a_message_names_can_be_called() -> None:
    refused = [
        f"{message.file.relative_to(REPOSITORY)}:{message.line}: {' '.join(words)}: {why}"
        for message in messages()
        for words in calls(message.text)
        if message.text not in APPLICATIONS
        if (why := fault(words))
    ]
    assert refused == []


@pytest.mark.slow
def test_every_command_with_arguments_names_the_program() -> None:
    assert [message for message in messages() if without_program(message.text)] == []
    assert without_program("`clean` or `recover --from-locations`") == ["recover --from-locations"]


@pytest.mark.slow
def test_every_option_that_a_message_names_exists() -> None:
    unknown = {
        f"{message.file.relative_to(REPOSITORY)}:{message.line}: {option}"
        for message in messages()
        for option in options_named(message.text) - known_options() - OTHERS
    }
    assert unknown == set()


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("`sparkhaven merge {table} --closd`", "No such option: --closd"),
        ("run `sparkhaven epoch list NS.T s`", "no command 'epoch'"),
        ("`sparkhaven epochs show NS.T`", "Missing parameter: stream"),
        ("sparkhaven truncate NS.T --date, then again", "requires an argument"),
        ("`sparkhaven epochs rollback NS.T s --to first`", "valid integer"),
    ],
)
def test_a_command_that_is_refused_is_seen(text: str, refused: str) -> None:
    (words,) = calls(text)
    assert refused in str(fault(words))


@pytest.mark.slow
def test_many_messages_name_commands() -> None:
    assert sum(len(list(calls(message.text))) for message in messages()) > 50
    assert fault(["merge", "NS.T", "--dates", "7"]) is None


@pytest.mark.slow
def test_a_command_that_is_told_can_be_run_as_it_stands(tmp_path: Path) -> None:
    """It has the root of the call, quoted for a shell; a root of the environment stays there."""
    root = tmp_path / "my db"
    small = SmallTable(root)
    small.add("a", "2026-11-20", {"Size": [1]})
    small.log().close()
    words = "validate", "NS.T", "--dates", "2026-11-20"
    after = CliRunner().invoke(app, [*words, "--root", str(root)], env={"SPARKHAVEN_ROOT": ""})
    before = CliRunner().invoke(app, ["--root", str(root), *words], env={"SPARKHAVEN_ROOT": ""})
    told = f"to do: sparkhaven --root '{root}' merge NS.T --dates 2026-11-20\n"
    assert told in before.stderr and told in after.stderr
    inside = CliRunner().invoke(app, list(words), env={"SPARKHAVEN_ROOT": str(root)})
    assert "to do: sparkhaven merge NS.T --dates 2026-11-20\n" in inside.stderr
    line = next(line for line in before.stderr.splitlines() if "to do: " in line).partition("to do: ")[2]
    added = CliRunner().invoke(app, ["--root", str(root), "partitions", "add", "NS", "0"])
    assert added.exit_code == 0
    assert CliRunner().invoke(app, [*shlex.split(line)[1:], "--local"]).exit_code == 0
    assert CliRunner().invoke(app, ["--root", str(root), *words]).exit_code == 0

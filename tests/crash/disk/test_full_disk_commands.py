"""The disk is full from one call of a command on: exit code 3 means that nothing was done, and a repeat does it.

Where something was committed before, the command says so, and ends with 0; or its repeat does, and does nothing more.
"""

from __future__ import annotations

import errno
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

from sparkhaven.readers.arrow.opening import open_table
from sparkhaven.store.errors import SparkhavenError
from sparkhaven.store.io.fs import Fs
from tests.support.commands import run, run_json
from tests.support.every_command import calls_of, life, prepare
from tests.support.examples import some_of
from tests.support.streams.dated_site import Dated
from tests.support.streams.schema_site import TABLE

pytestmark = pytest.mark.slow
TAKES_ROOM = ("_mkdir", "write_at", "write_new", "create", "copy_range", "link", "hard_link", "symlink")
WITHOUT_WRITES = {
    "partitions roll",
    "clean",
    "metadata update",
    "dates adopt",
}  # of this life: they find nothing to do
State = dict[str, Any]


@dataclass
class Disk:
    """A disk that has room for so many calls."""

    calls_left: int
    calls: int = 0
    refused: list[str] = field(default_factory=list)

    def take(self, name: str) -> None:
        self.calls += 1
        if self.calls > self.calls_left:
            self.refused.append(name)
            raise OSError(errno.ENOSPC, "No space left on device", name)


@contextmanager
def full_after(calls: int) -> Iterator[Disk]:
    """The disk is full after so many calls that take room."""
    disk = Disk(calls)

    def refusing(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def tried(fs: Fs, *arguments: Any, **named: Any) -> Any:
            disk.take(f"{name} {arguments[1 if 'link' in name else 0]}")
            return call(fs, *arguments, **named)

        return tried

    with pytest.MonkeyPatch.context() as patch:
        for name in TAKES_ROOM:
            patch.setattr(Fs, name, refusing(name, getattr(Fs, name)))
        yield disk


def rows_of(root: Path) -> list[str] | str:
    try:
        return sorted(map(repr, open_table(root, TABLE).to_arrow().to_pylist()))
    except SparkhavenError as error:
        return error.what


def state(root: Path) -> State:
    """What a user sees of the database. Leftovers that nothing shows do not count."""
    _, partitions = run_json(root, "partitions", "list", "Test")
    listed = partitions.get("partitions", [])
    _, streams = run_json(root, "streams", "list")
    quarantined = run(root, "quarantine", "list", TABLE, "s", "--json").stdout.splitlines()
    _, schema = run_json(root, "schema", "show", TABLE)
    return {
        "rows": rows_of(root),
        "columns": [column["name"] for column in schema.get("columns", ())],
        "partitions": sorted(one["name"] for one in listed if one["writable"] and ".g" not in one["name"]),
        "streams": sorted((one["stream"], one["rows"]) for one in streams.get("streams", ()) if one["rows"]),
        "quarantine": len([line for line in quarantined if '"error"' not in line]),
        "sound": run(root, "verify", "--deep").exit_code,
    }


class Trees:
    """The whole directory of a site, put back as it was."""

    def __init__(self, base: Path, kept: Path) -> None:
        self.base, self.kept = base, kept
        shutil.copytree(base, kept, symlinks=True)

    def back(self) -> None:
        shutil.rmtree(self.base)
        shutil.copytree(self.kept, self.base, symlinks=True)


def called(site: Dated, command: str, words: tuple[str, ...]) -> Result:
    return run(site.root, *command.split(), *words)


def lived_until(command: str, base: Path) -> tuple[Dated, tuple[str, ...]]:
    site, calls = life(base)
    for earlier, words in calls.items():
        prepare(site, earlier)
        if earlier == command:
            return site, words
        assert called(site, earlier, words).exit_code == 0, earlier
    raise AssertionError(command)


@pytest.mark.campaign
@pytest.mark.parametrize("command", [name for name in calls_of(Path()) if name not in WITHOUT_WRITES])
def test_a_full_disk(tmp_path: Path, command: str) -> None:
    base = tmp_path / "site"
    base.mkdir()
    site, words = lived_until(command, base)
    before, trees = state(site.root), Trees(base, tmp_path / "kept")
    with full_after(10**9) as disk:
        expected = called(site, command, words).exit_code
    after = state(site.root)
    assert disk.calls, "it writes nothing: see WITHOUT_WRITES"
    for calls in some_of(range(disk.calls), least=6):
        trees.back()
        with full_after(calls) as full:
            found = called(site, command, words)
        assert full.refused, calls
        now = state(site.root)
        about = f"after {calls} calls {full.refused[:1]}: {found.output}"
        assert found.exit_code in (expected, 3), about
        if found.exit_code == 3 and now != before:
            assert (now, " is committed" in found.output) == (after, True), about
        again = called(site, command, words)
        assert again.exit_code == expected, f"{about}\nagain: {again.output}"
        assert state(site.root) == after, f"{about}\nagain: {again.output}"
        if found.exit_code == 0 and now != after:
            assert "to do" in found.output or "`sparkhaven " in found.output, about

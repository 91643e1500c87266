"""The command line, called as it is from a shell but in this process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from sparkhaven.jobs.cli.main import app


def run(root: Path, *words: str | Path) -> Result:
    return CliRunner().invoke(app, ["--root", str(root), *map(str, words)], env={"SPARKHAVEN_ROOT": ""})


def run_json(root: Path, *words: str | Path) -> tuple[int, dict[str, Any]]:
    """Exit code and the only JSON object of a command."""
    found = run(root, *words, "--json")
    assert len(found.stdout.splitlines()) == 1, found.stdout
    return found.exit_code, json.loads(found.stdout)

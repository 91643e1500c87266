"""The command line, called as it is from a shell but in this process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from sparkhaven.jobs.cli.context import CliContext
from sparkhaven.jobs.cli.main import app
from sparkhaven.jobs.session.spark_or_local import LIMITS, LocalLimits


def run(root: Path, *words: str | Path, limits: LocalLimits = LIMITS) -> Result:
    """``limits``: what the command does in this process, without Spark."""
    arguments, context = ["--root", str(root), *map(str, words)], CliContext(limits=limits)
    return CliRunner().invoke(app, arguments, env={"SPARKHAVEN_ROOT": ""}, obj=context)


def run_json(root: Path, *words: str | Path, limits: LocalLimits = LIMITS) -> tuple[int, dict[str, Any]]:
    """Exit code and the only JSON object of a command."""
    found = run(root, *words, "--json", limits=limits)
    assert len(found.stdout.splitlines()) == 1, found.stdout
    return found.exit_code, json.loads(found.stdout)

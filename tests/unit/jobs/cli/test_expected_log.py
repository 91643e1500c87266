"""A command that will be logged imports the writer of log tables while it works."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sparkhaven.jobs.cli.context import LOG_MODULE, CliContext

IMPORTS = f"""
import sys
from sparkhaven.jobs.cli.context import CliContext
cli = CliContext(logs=sys.argv[1] == "logs", words=(sys.argv[2], "A.B"))
cli.expect_log()
cli.expect_log()
cli.log(0, 1.0)
print({LOG_MODULE!r} in sys.modules)
"""


@pytest.mark.parametrize(("words", "imported"), [("logs merge", True), ("none merge", False), ("logs read", False)])
def test_only_what_is_logged_is_imported_ahead(words: str, imported: bool) -> None:
    done = subprocess.run(
        [sys.executable, "-c", IMPORTS, *words.split()], check=True, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.strip() == str(imported)


def test_the_log_waits_for_the_import(tmp_path: Path) -> None:
    cli = CliContext(root=tmp_path, logs=True, words=("merge", "A.B"))
    cli.expect_log()
    thread = cli._importing
    cli.log(0, 1.0)
    assert thread is not None
    assert not thread.is_alive()

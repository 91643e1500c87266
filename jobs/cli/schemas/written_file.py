"""A text that a command writes to a new file, or prints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from sparkhaven.jobs.cli.context import CliContext
from sparkhaven.jobs.cli.options import DryRun
from sparkhaven.store.errors import SettingsError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.local_path import local_path

NewFileOption = Annotated[Path | None, typer.Option("--out", metavar="OUT", parser=local_path, help="File to write.")]


@dataclass(frozen=True, slots=True)
class NewFile:
    """Where a text goes: to a new file, or to standard output."""

    out: NewFileOption = None
    force: Annotated[bool, typer.Option("--force", help="Replace a file that is there.")] = False
    dry_run: DryRun = False

    def put(self, cli: CliContext, fs: Fs, text: str, record: Mapping[str, object]) -> None:
        """Writes the text to ``out``; prints it without one, and in a dry run. SettingsError: the file is there."""
        out = self.out
        exists = out is not None and fs.stat(out) is not None
        if exists and not self.force:
            raise SettingsError(
                "the file is there already",
                where=out,
                expected="no file yet",
                found="a file",
                hint="name another with --out, or replace it with --force",
            )
        if out is not None and not self.dry_run:
            fs.replace(out, text.encode("utf-8"))
            cli.result({**record, "file": str(out)}, f"{out}: written")
            return
        cli.result(dict(record), text.removesuffix("\n"))

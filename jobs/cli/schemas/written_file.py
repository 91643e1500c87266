"""A text that a command writes to a new file, or prints."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from sparkhaven.jobs.cli.context import CliContext
from sparkhaven.store.errors import SettingsError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.local_path import local_path

NewFileOption = Annotated[Path | None, typer.Option("--out", metavar="OUT", parser=local_path, help="File to write.")]
ForceOption = Annotated[bool, typer.Option("--force", help="Replace a file that is there.")]


def put_file(
    cli: CliContext, fs: Fs, text: str, out: Path | None, record: Mapping[str, object], *, force: bool, dry_run: bool
) -> None:
    """Writes the text to ``out``; prints it without one, and in a dry run. SettingsError: the file is there."""
    exists = out is not None and fs.stat(out) is not None
    if exists and not force:
        raise SettingsError(
            "the file is there already",
            where=out,
            expected="no file yet",
            found="a file",
            hint="name another with --out, or replace it with --force",
        )
    if out is not None and not dry_run:
        fs.replace(out, text.encode("utf-8"))
        cli.result({**record, "file": str(out)}, f"{out}: written")
        return
    cli.result(dict(record), text.removesuffix("\n"))

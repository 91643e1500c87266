"""``--result FILE``: the results of a command, alone in a file, whatever else the command and Spark print.

The file is empty while the command runs. It is replaced as a whole once the command has ended.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from sparkhaven.store.errors import SettingsError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.local_path import local_path

OPTION = "--result"


class ResultFile:
    """The file. SettingsError: its directory is not there; OSError: it cannot be written."""

    def __init__(self, path: Path) -> None:
        self._fs, self._path = Fs(), path
        if not path.parent.is_dir():
            raise SettingsError(
                "no directory for the result file",
                where=OPTION,
                found=path,
                hint=f"make {path.parent}, or name another",
            )
        self.write(())

    def write(self, lines: Iterable[str]) -> None:
        self._fs.replace(self._path, "".join(f"{line}\n" for line in lines).encode(), sync=False)


def open_result_file(words: Sequence[str]) -> ResultFile | None:
    """The file that the words of a command line name, before they are known to be right: an error is a result too."""
    for number, word in enumerate(words):
        name, equals, text = word.partition("=")
        if name == OPTION and (equals or number + 1 < len(words)):
            return ResultFile(local_path(text if equals else words[number + 1]))
    return None

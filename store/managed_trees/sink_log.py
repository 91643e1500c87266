"""The log of Spark's streaming file sink: which files of a directory are committed, as ``spark.read`` sees it.

``_spark_metadata`` has a file for each batch, ``N``, or ``N.compact`` with all batches up to N. A file is a line ``v1``
and a line of JSON for each data file: ``path`` (a percent-encoded URI), ``size``, ``action`` (``add`` or ``delete``).
Batches before the last compact one may be removed; those after it are all there. A data file that no batch names is
what a failed try of a batch has left.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count, takewhile
from pathlib import Path
from urllib.parse import unquote

from sparkhaven.store.errors import CorruptFileError, RetryableFeedError, UnsupportedVersionError
from sparkhaven.store.io.fs import Fs, Stat

SINK_LOG = "_spark_metadata"
UNCOMMITTED = f"not committed by {SINK_LOG}"
OTHER_SIZE = f"not of the size in {SINK_LOG}"
VERSION = "v1"
_BATCH = re.compile(r"(0|[1-9][0-9]*)(\.compact)?\Z")
_BEFORE_PATH = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:(//[^/]*)?")
_VERSIONS = count(1)

Parts = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Entry:
    """A data file: its whole path as Spark wrote it, and its bytes; ``added`` False: it was deleted."""

    parts: Parts
    size: int
    added: bool


class SinkLog:
    """The committed files of one output directory; ``look`` takes up what the sink has committed since.

    A directory that was moved, or is mounted elsewhere than where Spark wrote it, has the same files: paths of another
    place are compared from their end.
    """

    def __init__(self, fs: Fs, directory: Path) -> None:
        self._fs, self._directory = fs, directory
        self._place = directory / SINK_LOG
        self._read: dict[str, tuple[Stat, list[_Entry]]] = {}  # batches by the name of their file
        self._here: dict[Parts, int] = {}  # bytes by the names from the output directory on
        self._elsewhere: dict[str, list[_Entry]] = {}  # by the last name
        self.version = 0  # another one with each change, and no other log has it

    def look(self) -> None:
        """Reads new batches. CorruptFileError: a batch is damaged or missing; UnsupportedVersionError: not v1."""
        try:
            read = self._batches()
        except FileNotFoundError:  # the sink removes what it has compacted
            read = self._batches()
        if read == self._read:
            return
        self._read, self.version = read, next(_VERSIONS)
        entries = [entry for _, batch in read.values() for entry in batch]
        deleted = {entry.parts for entry in entries if not entry.added}
        bases = {self._directory.parts, self._fs.resolve(self._directory).parts}
        self._here, self._elsewhere = {}, {}
        for entry in entries:
            if entry.parts in deleted:
                continue
            base = next((base for base in bases if entry.parts[: len(base)] == base), None)
            if base is None:
                self._elsewhere.setdefault(entry.parts[-1], []).append(entry)
            else:
                self._here[entry.parts[len(base) :]] = entry.size

    def committed(self, path: Path) -> int | None:
        """Bytes of a data file below the output directory as it was committed; None: it was not."""
        if not path.is_relative_to(self._directory):  # a link leads here
            path = self._directory / self._fs.resolve(path).relative_to(self._fs.resolve(self._directory))
        names = path.relative_to(self._directory).parts
        others = self._elsewhere.get(names[-1], ())
        size = next((entry.size for entry in others if entry.parts[-len(names) :] == names), None)
        return self._here.get(names, size)

    def refusal(self, path: Path, stat: Stat) -> str | None:
        """Why a file does not count; None: it is as the sink has committed it."""
        size = self.committed(path)
        return UNCOMMITTED if size is None else OTHER_SIZE if size != stat.size else None

    def missing(self, is_there: Callable[[Path], bool]) -> list[Path]:
        """The committed files that are not there: of a moved directory those that lie below none of their keys."""
        gone = [path for names in self._here if not is_there(path := self._directory.joinpath(*names))]
        for name, entries in self._elsewhere.items():
            for entry in entries:
                keys = list(takewhile(lambda part: "=" in part, reversed(entry.parts[:-1])))[::-1]
                paths = [self._directory.joinpath(*keys[first:], name) for first in range(len(keys) + 1)]
                if not any(map(is_there, paths)):
                    gone.append(paths[0])
        return gone

    def _batches(self) -> dict[str, tuple[Stat, list[_Entry]]]:
        """Every batch that counts, oldest first: the last compact one and those after it."""
        try:
            names = {match[0]: match for name in self._fs.names(self._place) if (match := _BATCH.match(name))}
        except OSError as error:
            raise RetryableFeedError(
                "the log of Spark's sink cannot be listed", where=self._place, found=error, hint="check its permissions"
            ) from error
        by_number = {int(match[1]): name for name, match in sorted(names.items())}  # N.compact comes after N
        last = max(by_number, default=-1)
        first = max((number for number, name in by_number.items() if name.endswith(".compact")), default=0)
        for number in range(first, last + 1):
            if number not in by_number:
                raise CorruptFileError(
                    "the log of Spark's sink lacks a batch",
                    where=self._place / str(number),
                    expected=f"every batch from {first} to {last}",
                    found="nothing",
                    hint=f"put the file back, or move {SINK_LOG} away to take every file, uncommitted ones too",
                )
        return {by_number[number]: self._batch(by_number[number]) for number in range(first, last + 1)}

    def _batch(self, name: str) -> tuple[Stat, list[_Entry]]:
        path = self._place / name
        stat = self._fs.stat(path)
        if stat is None:
            raise FileNotFoundError(path)
        read = self._read.get(name)
        return read if read is not None and read[0] == stat else (stat, self._entries(path))

    def _entries(self, path: Path) -> list[_Entry]:
        try:
            header, *lines = self._fs.read(path).decode("utf-8").split("\n")
        except UnicodeDecodeError as error:
            raise _damaged(path, str(error)) from None
        if header != VERSION:
            if re.fullmatch(r"v[0-9]+", header):
                raise UnsupportedVersionError(
                    "the log of Spark's sink has another version", where=path, expected=VERSION, found=header
                )
            raise _damaged(path, f"{header[:40]!r} in line 1, for {VERSION}")
        while lines and not lines[-1]:
            lines.pop()
        return [entry for number, line in enumerate(lines, 2) if (entry := self._entry(path, number, line))]

    def _entry(self, path: Path, number: int, line: str) -> _Entry | None:
        try:
            body = json.loads(line)
            uri, size, action = body["path"], body["size"], body["action"]
        except (ValueError, KeyError, TypeError) as error:
            raise _damaged(path, f"line {number}: {error}") from None
        if action not in ("add", "delete") or type(size) is not int or not isinstance(uri, str):
            raise _damaged(path, f"line {number}: action {action!r}, size {size!r}, path {uri!r}")
        parts = Path(unquote(_BEFORE_PATH.sub("", uri, count=1))).parts
        return None if body.get("isDir") is True or not parts else _Entry(parts, size, action == "add")


def _damaged(path: Path, fault: str) -> CorruptFileError:
    return CorruptFileError(
        "the log of Spark's sink is damaged",
        where=path,
        expected=f"{VERSION}, then a line of JSON for each data file",
        found=fault,
        hint=f"put the file back, or move {SINK_LOG} away to take every file, uncommitted ones too",
    )

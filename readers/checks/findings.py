"""Findings of checks, as text and as JSON, and how much was checked."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal

from sparkhaven.store.errors import SparkhavenError

Severity = Literal["error", "warning", "note"]
_PLACE = re.compile(", | at ")
COUNTS = ("tables", "streams", "locations", "rows", "bytes")


@dataclass(frozen=True, slots=True)
class CheckFinding:
    """One finding. ``error``: data is lost or wrong; ``warning``: reads are correct, but something is out of
    place; ``note``: harmless. ``at`` is a byte, row, entry or record inside ``path``.
    """

    severity: Severity
    path: str
    what: str
    at: str | None = None
    expected: str | None = None
    found: str | None = None
    hint: str | None = None

    def to_json(self) -> dict[str, str]:
        return {name: value for name, value in asdict(self).items() if value is not None}

    def text(self) -> str:
        parts = [("at", self.at), ("expected", self.expected), ("found", self.found), ("to do", self.hint)]
        head = f"{self.severity}: {self.path}: {self.what}"
        return "\n".join([head, *(f"  {name}: {value}" for name, value in parts if value is not None)])


@dataclass(slots=True)
class Report:
    findings: list[CheckFinding] = field(default_factory=list)
    tables: int = 0
    streams: int = 0
    locations: int = 0
    rows: int = 0
    bytes: int = 0

    @property
    def errors(self) -> int:
        return sum(f.severity == "error" for f in self.findings)

    def count(self, other: Report) -> None:
        for name in COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def to_json(self) -> dict[str, object]:
        counts = {name: getattr(self, name) for name in (*COUNTS, "errors")}
        return {**counts, "findings": [f.to_json() for f in self.findings]}


def finding(
    severity: Severity,
    path: object,
    what: str,
    *,
    at: object = None,
    expected: object = None,
    found: object = None,
    hint: str | None = None,
) -> CheckFinding:
    at, expected, found = (None if part is None else str(part) for part in (at, expected, found))
    return CheckFinding(severity, str(path), what, at, expected, found, hint)


def shortened(path: Path, on_disk: int, committed: int, hint: str | None = None) -> CheckFinding:
    """A file that is shorter than it was committed, both lengths with its prefix."""
    what, sizes = "file is shorter than its committed length", (f"{committed} bytes", f"{on_disk} bytes")
    return finding("error", path, what, at=f"byte {on_disk}", expected=sizes[0], found=sizes[1], hint=hint)


def other_checksum(path: Path, cause: str, span: tuple[int, int], crcs: tuple[int, int], hint: str) -> CheckFinding:
    """Bytes of a file from and to ``span`` whose checksum is not the committed one, the first of ``crcs``."""
    what, part = f"checksum does not match. {cause}", f"bytes {span[0]} to {span[1]}"
    committed, now = (f"CRC-32 {crc:08x}" for crc in crcs)
    return finding("error", path, what, at=part, expected=committed, found=now, hint=hint)


def _directory(path: Path) -> Path:
    """Where the files of a column, or of an index, lie."""
    return path.parent if path.suffix else path


def from_error(error: Exception, path: object) -> CheckFinding:
    if not isinstance(error, SparkhavenError):
        return finding("error", path, f"cannot be read: {error}", hint="check permissions and the disk")
    where = error.where or ""
    rest = where.removeprefix(str(path))
    if rest == where or rest.startswith("/"):
        file, *parts = _PLACE.split(where, maxsplit=1)
        if Path(file).is_relative_to(_directory(Path(str(path)))):
            path, where = file, ", ".join([file, *parts])  # the very file of a column or an index
    position = where.removeprefix(str(path)).removeprefix(" at ").strip(" :,") if where.startswith(str(path)) else where
    extra = "; ".join(f"{name} {value}" for name, value in error.extra.items() if value is not None)
    position = "; ".join(part for part in (position, extra) if part)
    return CheckFinding("error", str(path), error.what, position or None, error.expected, error.found, error.hint)

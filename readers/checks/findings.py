"""One finding of a check, whichever command shows it, and how much was checked."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from sparkhaven.readers.checks.catalogue import CATALOGUE, GENERALLY, Entry, Severity, severity_of
from sparkhaven.store import next_steps
from sparkhaven.store.errors import SparkhavenError, StorageError
from sparkhaven.store.schema.findings import VIOLATIONS

_PLACE = re.compile(", | at ")
COUNTS = ("tables", "streams", "locations", "rows", "bytes")
AS_READERS_SAY = {CATALOGUE[code].what: code for code in ("E203", "E204", "E205")}
PARTS = ("path", "what", "at", "expected", "found", "hint")


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding. ``code`` stands in the catalogue, and tells the severity. ``at`` is a byte, row, entry or record
    inside ``path``; ``hint`` says what to do.
    """

    code: str
    path: str
    what: str
    at: str | None = None
    expected: str | None = None
    found: str | None = None
    hint: str | None = None

    @property
    def severity(self) -> Severity:
        """``error``: data are lost or wrong; ``warning``: reads are right, something is out of place; ``note``."""
        return severity_of(self.code)

    def to_json(self) -> dict[str, str]:
        """The finding as a JSON object without absent parts."""
        parts = {"code": self.code, "severity": str(self.severity), **{name: getattr(self, name) for name in PARTS}}
        return {name: value for name, value in parts.items() if value is not None}

    def text(self) -> str:
        """The finding for people, several lines."""
        parts = [("at", self.at), ("expected", self.expected), ("found", self.found), ("to do", self.hint)]
        head = f"{self.severity} {self.code}: {self.path}: {self.what}"
        return "\n".join([head, *(f"  {name}: {value}" for name, value in parts if value is not None)])


@dataclass(slots=True)
class Report:
    """Findings, and what was looked at."""

    findings: list[Finding] = field(default_factory=list)
    tables: int = 0
    streams: int = 0
    locations: int = 0
    rows: int = 0
    bytes: int = 0

    @property
    def errors(self) -> int:
        """How many findings are errors."""
        return sum(f.severity == "error" for f in self.findings)

    def count(self, other: Report) -> None:
        """Adds what another report has looked at."""
        for name in COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def to_json(self) -> dict[str, object]:
        """The report as a JSON object."""
        counts = {name: getattr(self, name) for name in (*COUNTS, "errors")}
        return {**counts, "findings": [f.to_json() for f in self.findings]}


def finding(
    code: str,
    path: object,
    what: str | None = None,
    *,
    at: object = None,
    expected: object = None,
    found: object = None,
    hint: str | None = None,
    **texts: object,
) -> Finding:
    """A finding with the sentence and the thing to do of its code, or with its own.

    Args:
        code: Its code in the catalogue.
        path: The file or directory.
        what: A sentence of its own.
        at: A byte, row, entry or record inside of it.
        expected: What should be there.
        found: What is there.
        hint: A thing to do of its own.
        **texts: What fills the places in the texts of the catalogue.

    Returns:
        The finding.

    Example:
        >>> finding("E203", "/db/x.dat", expected="8 bytes", found="nothing").severity
        'error'
    """
    entry = CATALOGUE.get(code) or Entry(VIOLATIONS[code], "")
    filled = _filled(path, texts)
    at, expected, found = (None if part is None else str(part) for part in (at, expected, found))
    what = entry.what.format_map(filled) if what is None else what
    return Finding(code, str(path), what, at, expected, found, hint or entry.todo.format_map(filled) or None)


def weaker(defect: Finding, code: str, **texts: str) -> Finding:
    """The same finding under a weaker code, with the thing to do of that."""
    return replace(defect, code=code, hint=CATALOGUE[code].todo.format_map(_filled(defect.path, texts)))


def _filled(path: object, texts: Mapping[str, object]) -> Mapping[str, str]:
    """What the places of a text say: as given, else by the path of the file."""
    table, value = next_steps.date_of(path) or ("TABLE", "DATE")
    known: dict[str, object] = {"table": table, "date": value, **texts, "path": path}
    known["restore"] = next_steps.mended(path) or GENERALLY["restore"]
    known["remerge"] = next_steps.merge_again_at(path)
    return defaultdict(str, {name: str(text) for name, text in known.items()})


def _directory(path: Path) -> Path:
    """Where the files of a column, or of an index, lie."""
    return path.parent if path.suffix else path


def from_error(error: Exception, path: object, code: str = "E201", *, hint: str | None = None) -> Finding:
    """The finding that an error is: of the very file that it names, if that lies beside ``path``.

    ``code``, ``hint``: of the finding, where it is not the system that refuses to read.
    """
    if not isinstance(error, SparkhavenError):
        return finding("E202", path, f"cannot be read: {error}")
    where = error.where or ""
    rest = where.removeprefix(str(path))
    if rest == where or rest.startswith("/"):
        file, *parts = _PLACE.split(where, maxsplit=1)
        if Path(file).is_relative_to(_directory(Path(str(path)))):
            path, where = file, ", ".join([file, *parts])  # the very file of a column or an index
    position = where.removeprefix(str(path)).removeprefix(" at ").strip(" :,") if where.startswith(str(path)) else where
    extra = "; ".join(f"{name} {value}" for name, value in error.extra.items() if value is not None)
    position = "; ".join(part for part in (position, extra) if part)
    chosen = hint or error.hint
    if code == "E201":
        code = "E202" if isinstance(error, StorageError) else AS_READERS_SAY.get(error.what, code)
    return Finding(code, str(path), error.what, position or None, error.expected, error.found, chosen)

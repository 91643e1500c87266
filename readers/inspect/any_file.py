"""Decodes one file of a database and reports corruption with byte offsets.

``inspect_file`` never raises for damage. The kind of a file comes from its name, else from its first bytes. Facts are
plain values, ready for JSON.

Files beside the data are decoded here: marks, notes, locks, caches, scratch of a batch, commits of a Delta table.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, MutableMapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from sparkhaven.readers.checks.findings import Finding, finding, from_error, weaker
from sparkhaven.readers.inspect import column_files as inspect_columns
from sparkhaven.readers.inspect import record_files as inspect_records
from sparkhaven.store.epochs.files.lock import in_progress
from sparkhaven.store.epochs.files.published_size import read_mark
from sparkhaven.store.errors import CorruptFileError, SparkhavenError, TableNotFoundError
from sparkhaven.store.format.manifest import KINDS as MANIFESTS
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.read_only_roots import FORM
from sparkhaven.store.quarantine.ledger import decode_ledger

SHOWN = 12  # entries of a list that the text form shows


def owner_mark(fs: Fs, path: Path, facts: MutableMapping[str, object]) -> Iterator[Finding]:
    """The stream of a location. One that is torn counts for nothing once the location has its ``table.size``."""
    mark = read_mark(fs, path.parent) if path.name[0] == "." else None
    if mark is None:
        raise CorruptFileError(
            "mark of the owner names no stream", where=path, expected="a stream", found=_start(fs, path)
        )
    facts.update(stream=mark.stream, generation=mark.generation, whole=mark.whole)
    yield from ()


def ledger(fs: Fs, path: Path, facts: MutableMapping[str, object]) -> Iterator[Finding]:
    value, table, stream = decode_ledger(fs.read(path), path)
    facts.update(table=table, stream=stream, place=value.place, file=value.file, newest=value.newest, seen=value.seen)
    facts["dead"] = [list(pair) for pair in value.dead]
    yield from ()


def delta_commit(fs: Fs, path: Path, facts: MutableMapping[str, object]) -> Iterator[Finding]:
    """How many actions of each kind it has: one a line, each a JSON object with one key."""
    actions: Counter[str] = Counter()
    for number, line in enumerate(fs.read(path).splitlines(), 1):
        try:
            action = json.loads(line)
        except ValueError:
            action = None
        if not isinstance(action, dict) or len(action) != 1:
            raise CorruptFileError(
                "a line of the commit is no action",
                where=path,
                line=number,
                expected='{"add": ...}',
                found=line[:SHORT],
            )
        actions.update(list(action))
    facts.update(version=int(path.stem), **actions)
    yield from ()


def text(fs: Fs, path: Path, facts: MutableMapping[str, object]) -> Iterator[Finding]:
    """A file whose content no row depends on: it is only shown."""
    shown = _start(fs, path)
    if shown:
        facts["text"] = shown
    yield from ()


def _start(fs: Fs, path: Path) -> str:
    stat = fs.stat(path)
    return fs.read_range(path, 0, min(SHORT, stat.size if stat else 0)).decode("utf-8", "replace").strip()


SHORT = 100  # bytes of a text that are shown


@dataclass(slots=True)
class Inspection:
    path: str
    kind: str
    size: int
    facts: dict[str, Any] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    @property
    def sound(self) -> bool:
        """Whether the file has no errors; warnings and notes do not count."""
        return not any(finding.severity == "error" for finding in self.findings)

    def to_json(self) -> dict[str, Any]:
        return {
            "path": self.path,
            "kind": self.kind,
            "size": self.size,
            "sound": self.sound,
            "facts": self.facts,
            "findings": [finding.to_json() for finding in self.findings],
        }

    def cells(self) -> list[tuple[str, str, str]]:
        """Path, name and value of each member of the JSON form, inner ones as ``facts.rows``; then the findings."""
        facts = {"kind": self.kind, "size": self.size, "sound": self.sound, "facts": self.facts}
        defects = [(self.path, finding.severity, " ".join(finding.text().split())) for finding in self.findings]
        return [*((self.path, *cell) for cell in _cells(facts, "")), *defects]

    def lines(self) -> list[str]:
        head = f"{self.path}: {self.kind}, {self.size} bytes, {'sound' if self.sound else 'damaged'}"
        return [head, *_facts(self.facts, 2), *(line for f in self.findings for line in f.text().splitlines())]


Inspector = Callable[[Fs, Path, dict[str, Any]], Iterator[Finding]]
PLACED: tuple[tuple[str, str, Inspector], ...] = (  # ends of paths: names that count in a directory of ours
    (r"\..+\.merges/[^/]+/\d+\.json", "merge record", inspect_records.merge_record),
    (r"\..+\.merges/\.lock", "lock of merges", text),
    (r"\.set-aside/[^/]+/[^/]+/[^/]+\.json", "note of rows that were set aside", inspect_records.json_file),
    (r"_delta_log/\d{20}\.json", "commit of a Delta table", delta_commit),
    (r"_delta_log/_last_checkpoint", "last checkpoint of a Delta table", inspect_records.json_file),
    (r"\.scratch/.+", "scratch file of a batch", text),
    (r"\.spark/.+", "file of Spark's checkpoint", text),
    (r"\.scrub/position", "position of a scrub", text),
    (r"\.scrub/lock", "lock of a scrub", text),
)
KINDS: tuple[tuple[str, str, Inspector], ...] = (
    (r"table\.size", "location record", inspect_records.location_record),
    (r".+\.tbl", "table definition", inspect_records.definition),
    (r".+\.tlmi", "location index", inspect_records.location_index),
    (r".+\.schema", "schema", inspect_records.schema),
    (r".+\.history\.json", "schema history", inspect_records.json_file),
    (r"\d+\.drop", "record of a dropped table", inspect_records.dropped_table),
    (r"\d+\.validation", "validation result", inspect_records.validation),
    *(
        (re.escape(kind.name), f"manifest of a {kind.title}", partial(inspect_records.manifest, kind))
        for kind in MANIFESTS
    ),
    (r".+\.parquet", "Parquet file", inspect_records.parquet),
    (r".+\.sym\.bytes", "symbol bytes", inspect_columns.symbol_bytes),
    (r".+\.sym", "symbol offsets", inspect_columns.symbols),
    (r".+\.bytes", "blob bytes", inspect_columns.blob_bytes),
    (r".+\.ovr", "grouping overflow", inspect_columns.overflow),
    (r".+\.dat", "column data", inspect_columns.column_data),
    (r".+\.log", "commit log", inspect_records.commit_log),
    (r".+\.checkpoint", "checkpoint", inspect_records.checkpoint),
    (r".+\.head", "head", inspect_records.head),
    (r".+\.removals", "removals", inspect_records.removals),
    (r".+\.removed", "note of a removed stream", inspect_records.removed_note),
    (r".+\.failure", "note of a stream's last failure", inspect_records.failure_note),
    (r".+\.lock", "lock", inspect_records.json_file),
    (r".+\.quarantine", "ledger of a quarantine", ledger),
    (r"\.stream", "mark of a location's owner", owner_mark),
    (re.escape(FORM), "form of a database", text),
    (r"\..+\.locations", "locations of a user table", inspect_records.user_locations),
    (r"\..+-LOCKFILE", "lock of a user table", inspect_records.empty_lock),
    (r"\..+-FIRST", "mark of a user table's first save", text),
)
MAGICS: tuple[tuple[bytes, str], ...] = (
    (b"SHVLOG", "commit log"),
    (b"SHVCKP", "checkpoint"),
    (b"SHVHED", "head"),
    (b"SHVREM", "removals"),
    (b"SHVMRG", "merge record"),
    (b"SHVDRP", "record of a dropped table"),
    (b"SHVVAL", "validation result"),
    (b"SHVUSR", "locations of a user table"),
    (b"PAR1", "Parquet file"),
    (b"\xdb\x2b\xb2\xdb", "location index"),
    (b"\x77\x01\xfe", "table definition"),
)
CACHES = {"head": "N308", "note of a stream's last failure": "N313"}  # no row depends on them: damage is a note
_TEMPORARY = re.compile(r"\.(.+)\.tmp-(?:\d+|next)\Z")


def inspect_file(fs: Fs, path: Path) -> Inspection:
    """Decodes one file. TableNotFoundError for a path that is no file."""
    stat = fs.stat(path)
    if stat is None or stat.is_dir:
        raise TableNotFoundError(
            "no such file to inspect",
            where=path,
            expected="a file",
            found="a directory" if stat else "nothing",
            hint="`sparkhaven verify` checks whole tables",
        )
    temporary = _TEMPORARY.match(path.name)
    kind, inspector = _kind(fs, path, temporary[1] if temporary else path.name, stat.size)
    inspection = Inspection(str(path), kind, stat.size)
    if temporary and in_progress(fs, path):
        inspection.findings.append(finding("N209", path))
        return inspection  # it is incomplete
    if temporary:
        inspection.findings.append(finding("N208", path))
    if inspector is None:
        inspection.facts["firstBytes"] = fs.read_range(path, 0, min(16, stat.size)).hex(" ")
        inspection.findings.append(finding("N210", path))
        return inspection
    code = CACHES.get(kind, "E201")
    try:
        for damage in inspector(fs, path, inspection.facts):
            if all((damage.path, damage.what) != (earlier.path, earlier.what) for earlier in inspection.findings):
                inspection.findings.append(damage)  # damage that two checks find is one finding
    except (SparkhavenError, OSError) as error:
        inspection.findings.append(from_error(error, path, code))
        if stat.size:
            inspection.facts["firstBytes"] = fs.read_range(path, 0, min(16, stat.size)).hex(" ")
    if temporary:  # what it has is no part of the table
        inspection.findings = [weaker(f, "N208") if f.severity == "error" else f for f in inspection.findings]
    return inspection


def _kind(fs: Fs, path: Path, name: str, size: int) -> tuple[str, Inspector | None]:
    placed = path.absolute().with_name(name).as_posix()
    for pattern, kind, inspector in PLACED:
        if re.search(f"/{pattern}\\Z", placed):
            return kind, inspector
    for pattern, kind, inspector in KINDS:
        if re.fullmatch(pattern, name):
            return kind, inspector
    head = fs.read_range(path, 0, min(8, size))
    for magic, kind in MAGICS:
        if head.startswith(magic):
            return kind, next(inspector for _, name, inspector in (*PLACED, *KINDS) if name == kind)
    return "unknown", None


def _cells(facts: dict[str, Any], above: str) -> Iterator[tuple[str, str]]:
    for name, value in facts.items():
        if isinstance(value, dict):
            yield from _cells(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _facts(facts: dict[str, Any], indent: int) -> Iterator[str]:
    margin = " " * indent
    for name, value in facts.items():
        if isinstance(value, dict):
            yield f"{margin}{name}:"
            yield from _facts(value, indent + 2)
        elif isinstance(value, list) and value and all(isinstance(entry, dict) for entry in value):
            yield f"{margin}{name}: {len(value)}"
            for entry in value[-SHOWN:]:
                yield f"{margin}  " + ", ".join(f"{k} {v}" for k, v in entry.items())
        elif isinstance(value, list) and len(value) > SHOWN:
            yield f"{margin}{name}: {', '.join(map(str, value[:SHOWN]))} ... {len(value)} in all"
        else:
            yield f"{margin}{name}: {value}"

"""What a merge record says of the run that wrote it: phase, dropped columns, order, format, destinations and sources.

``MergeRun`` is the entry ``details`` of the record, which readers of history ignore. Destinations are lists [writable,
internal, staging, target], sources [stream, internal, since, epoch, start, stop]. Each entry of a planned run is
written. Other runs have those that were given. Entries of later releases are kept as they are.

The proof of a merge is here too: rows and digests on both sides, and the rows that were left out. Where rows were left
out, the proof in the record has ``identical``, ``digestsDropped`` and ``rowDigestDropped``. It has ``withdrawn`` where
a command took rows out, and ``deleted`` where some were in history: lists [where, generation, rows]. ``filledDropped``
has lists [column id, rows with a value].
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

from sparkhaven.store.layout import TableName
from sparkhaven.store.types.model import DISTRIBUTIONS, DedupeRule, Distribution

ADOPTED = "adopt"  # how outputs came to be that stood in the tree without a record


class MergePhase(StrEnum):
    """The phases of a merge of one date. Its record has the last finished one of those that are stored."""

    PLAN = "plan"
    STAGE = "stage"
    SYNC = "sync"
    CHECK = "check"
    PUBLISH = "publish"
    INDEX = "index"
    RECORD = "record"
    CLEAN = "clean"

    def reached(self, phase: MergePhase) -> bool:
        return _ORDER.index(self) >= _ORDER.index(phase)


_ORDER = tuple(MergePhase)


@dataclass(frozen=True, slots=True)
class Destination:
    """One output: ``writable`` is the entry of ``WritablePartitions``, ``internal`` the name that is published.

    It is written below ``stage_root`` as ``internal/value/table``; ``target`` is the internal partition's directory.
    """

    writable: str
    internal: str
    stage_root: Path
    target: Path

    def stage(self, table: TableName, value: str) -> Path:
        return self.stage_root / self.internal / value / table.table

    def published(self, table: TableName, value: str) -> Path:
        return self.target / value / table.table


@dataclass(frozen=True, slots=True)
class RunSource:
    """Rows ``start`` to ``stop`` of the location that the epoch ``since`` made, as of ``epoch``."""

    stream: str
    internal: str
    since: int
    epoch: int
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class ImportedTree:
    """The tree that an import read: ``id`` of the content of its files, the directory, its layout and rows."""

    id: str
    root: str
    layout: str
    rows: int


@dataclass(frozen=True, slots=True)
class Relocated:
    """How the outputs of a record came to be without a merge: ``by`` ``move``, ``attach`` or ``adopt``.

    ``origin``: the storage partition that they were moved from, the id of the manifest that was attached, or the
    generation that was the date's when what stood was adopted, 0 without one.
    """

    by: str
    origin: str


@dataclass(frozen=True, slots=True)
class Detached:
    """Rows of a date that were taken out of the tree: the ``id`` of their manifest, its directory, rows and bytes.

    ``replaced``: other rows have taken the place of all that was merged, so no proof has these as left out.
    """

    id: str
    path: str
    rows: int
    size: int
    replaced: bool = False


@dataclass(frozen=True, slots=True)
class MergeRun:
    """The run of one merge.

    ``sort``: the order inside groups, as ``--sort`` spells it. ``format``: None where it is not known.
    ``partitions``: those that rows of the date could go to, in formula order; copies of it keep them.
    ``supplements``: how many merges have added to the date since it was last merged as a whole. ``destinations``: those
    that were planned, ``work`` the directory beside them. ``switched_ms``: when readers began to use the record.
    ``dedupe``: the rule by which rows were left out; one without keys: none, because a command said so.
    ``distribution``: how the destinations were chosen, ``formula`` in records without it. ``stays_in``: the storage
    partition that a command has moved the date to, where later merges of it write. ``relocated``: the outputs are
    copies. ``detached``: what was detached and can be attached. ``attached``: what has come back.
    """

    sort: tuple[str, ...] = ()
    format: str | None = None
    formula: str | None = None
    partitions: tuple[str, ...] = ()
    supplements: int = 0
    destinations: tuple[Destination, ...] = ()
    work: Path | None = None
    sources: tuple[RunSource, ...] = ()
    switched_ms: int | None = None
    imported: ImportedTree | None = None
    dedupe: DedupeRule | None = None
    stays_in: str | None = None
    relocated: Relocated | None = None
    detached: tuple[Detached, ...] = ()
    attached: tuple[Detached, ...] = ()
    distribution: Distribution = "formula"
    others: Mapping[str, object] = field(default_factory=dict)

    @property
    def outside(self) -> tuple[Detached, ...]:
        """What can be attached once the date has no rows any more: what has come back, too."""
        return *self.detached, *(replace(part, replaced=True) for part in self.attached)

    @property
    def staging(self) -> list[Path]:
        roots = {destination.stage_root for destination in self.destinations}
        return sorted(roots | ({self.work} if self.work else set()))


def encode_run(run: MergeRun) -> dict[str, Any]:
    tree = run.imported
    given: dict[str, Any] = {
        "sort": list(run.sort),
        "format": run.format,
        "formula": run.formula,
        "partitions": list(run.partitions),
        "supplements": run.supplements,
        "destinations": [[d.writable, d.internal, str(d.stage_root), str(d.target)] for d in run.destinations],
        "work": str(run.work) if run.work else None,
        "sources": [[s.stream, s.internal, s.since, s.epoch, s.start, s.stop] for s in run.sources],
    }
    if run.work is None:
        given = {name: value for name, value in given.items() if value}
    if run.format is None:
        given.pop("format", None)
    if tree is not None:
        given["import"] = {"id": tree.id, "from": tree.root, "layout": tree.layout, "rows": tree.rows}
    if run.dedupe is not None and run.dedupe.keys:
        given["dedupe"] = run.dedupe.to_json()
    elif run.dedupe is not None:
        given["dedupeNone"] = True
    if run.distribution != "formula":
        given["distribution"] = run.distribution
    if run.switched_ms is not None:
        given["switched_ms"] = run.switched_ms
    if run.stays_in is not None:
        given["staysIn"] = run.stays_in
    if run.relocated is not None:
        given["relocated"] = [run.relocated.by, run.relocated.origin]
    if run.detached:
        given["detached"] = [_part(part) for part in run.detached]
    if run.attached:
        given["attached"] = [_part(part) for part in run.attached]
    return given | dict(run.others)


def _part(part: Detached) -> list[str | int]:
    return [part.id, part.path, part.rows, part.size, *([True] if part.replaced else ())]


def _dedupe(details: Mapping[str, Any]) -> DedupeRule | None:
    """The rule of a run. ``dedupeNone``: none, because a command said so."""
    if details.get("dedupeNone"):
        return DedupeRule(())
    return DedupeRule.from_json(details["dedupe"]) if "dedupe" in details else None


def decode_run(details: Mapping[str, Any]) -> MergeRun:
    """The inverse of ``encode_run``. KeyError, TypeError, ValueError: an entry has another form."""
    tree = details.get("import")
    return MergeRun(
        sort=tuple(details.get("sort", ())),
        format=details.get("format"),
        formula=details.get("formula"),
        partitions=tuple(details.get("partitions", ())),
        supplements=int(details.get("supplements", 0)),
        destinations=tuple(
            Destination(writable, internal, Path(stage_root), Path(target))
            for writable, internal, stage_root, target in details.get("destinations", ())
        ),
        work=Path(details["work"]) if "work" in details else None,
        sources=tuple(RunSource(*entry) for entry in details.get("sources", ())),
        switched_ms=int(details["switched_ms"]) if "switched_ms" in details else None,
        imported=ImportedTree(tree["id"], tree["from"], tree["layout"], tree["rows"]) if tree is not None else None,
        dedupe=_dedupe(details),
        stays_in=details.get("staysIn"),
        relocated=Relocated(*details["relocated"]) if "relocated" in details else None,
        detached=tuple(Detached(*part) for part in details.get("detached", ())),
        attached=tuple(Detached(*part) for part in details.get("attached", ())),
        distribution=_distribution(details.get("distribution", "formula")),
        others={name: value for name, value in details.items() if name not in _NAMES},
    )


_NAMES = frozenset(
    [
        "sort",
        "format",
        "formula",
        "partitions",
        "supplements",
        "destinations",
        "work",
        "sources",
        "switched_ms",
        "import",
        "dedupe",
        "dedupeNone",
        "staysIn",
        "relocated",
        "detached",
        "attached",
        "distribution",
    ]
)


def _distribution(word: object) -> Distribution:
    for known in DISTRIBUTIONS:
        if known == word:
            return known
    raise ValueError(f"no distribution: {word}")


@dataclass(frozen=True, slots=True)
class ColumnDrop:
    """A column of the sources that the outputs lack: in how many rows it had a value.

    ``digest`` is that of the column in the sources, as 32 hex digits.
    """

    id: int
    name: str
    rows: int
    digest: str


def encode_drops(drops: Sequence[ColumnDrop]) -> dict[str, Any]:
    return {"columnDrops": [[drop.id, drop.name, drop.rows, drop.digest] for drop in drops]} if drops else {}


def decode_drops(record: Mapping[str, Any]) -> tuple[ColumnDrop, ...]:
    """The inverse of ``encode_drops``; TypeError where a part is missing."""
    return tuple(ColumnDrop(*entry) for entry in record.get("columnDrops", ()))


@dataclass(frozen=True, slots=True)
class RowDeletion:
    """Rows of history that a command deleted: the condition, the merge that left them out, and their number."""

    where: str
    generation: int
    rows: int


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Rows of the sources that the outputs lack by a rule: how many, and how many of them were equal to a kept row.

    ``digests`` are those of the rows by column, as 32 hex digits, and ``row_digest`` that of all columns together.
    ``withdrawn``: how many were withdrawn by a command.
    ``deletions``: which of these were deleted from history; the others were withdrawn before they were merged.
    ``filled``: rows with a value by the id of the column, of those that were stored then; where rows were left out by
    a release that did not count, fewer or none.
    """

    rows: int = 0
    identical: int = 0
    digests: dict[str, str] = field(default_factory=dict)
    withdrawn: int = 0
    deletions: tuple[RowDeletion, ...] = ()
    filled: dict[int, int] = field(default_factory=dict)
    row_digest: str = "0" * 32


@dataclass(frozen=True, slots=True)
class Proof:
    """Row counts and digests of every column on both sides; digests as 32 hex digits.

    ``digests_in`` are those of the rows that are not left out.
    """

    rows_in: int
    rows_out: int
    digests_in: dict[str, str]
    digests_out: dict[str, str]
    left_out: LeftOut = LeftOut()

    @property
    def dropped(self) -> int:
        return self.left_out.rows

    @property
    def holds(self) -> bool:
        """Whether nothing was lost, doubled or changed."""
        return self.rows_in == self.rows_out + self.dropped and self.digests_in == self.digests_out


def encode_left_out(rows: LeftOut) -> dict[str, object]:
    """The entries of a proof, but for ``dropped``."""
    if not rows.rows:
        return {}
    entries: dict[str, object] = {
        "identical": rows.identical,
        "digestsDropped": rows.digests,
        "rowDigestDropped": rows.row_digest,
    }
    if rows.withdrawn:
        entries["withdrawn"] = rows.withdrawn
    if rows.deletions:
        entries["deleted"] = [[d.where, d.generation, d.rows] for d in rows.deletions]
    if rows.filled:
        entries["filledDropped"] = sorted(rows.filled.items())
    return entries


def decode_left_out(proof: Mapping[str, Any]) -> LeftOut:
    """The inverse of ``encode_left_out``. KeyError, TypeError: an entry is missing."""
    return LeftOut(
        proof["dropped"],
        proof.get("identical", 0),
        proof.get("digestsDropped", {}),
        proof.get("withdrawn", 0),
        tuple(RowDeletion(*entry) for entry in proof.get("deleted", ())),
        dict(proof.get("filledDropped", ())),
        proof["rowDigestDropped"] if proof["dropped"] else "0" * 32,
    )

"""Merge records: the inputs, outputs and last phase of a merge of one date.

One file per generation, ``<merges of the table>/<value>/<generation>.json``. The newest *complete* record of a date
decides what its history is; readers never look for history by listing directories.

The file has the frames of ``store.framing``: magic ``SHVMRG3``, as number the generation (as in the file
name), and one frame, to the end of it. Its payload has the fields of ``MergeRecord``; inputs are lists [stream,
internal, since, epoch, rows], then number and CRC-32 of withdrawn rows where there are some, files [bytes, crc],
ranges as ``store.epochs.state.log_records`` spells them. ``indexes``, files likewise, is left out where there are none.
``columnDrops``, lists [id, name, rows, digest], is left out where no column was dropped; ``corrections`` are as
``column_corrections`` has them, and a proof with ``dropped`` rows as ``merge_proofs`` has it.

*Writer.* A record is replaced atomically (temporary file, sync, rename, sync of the directory); ``phase`` is the last
finished phase of those that are stored: ``plan``, ``check`` (a restart resumes from it), ``record`` (readers use it
from then on) and ``clean``, for a large date also ``stage`` and ``sync``. *Reader.* A record from phase ``record`` on
is complete; earlier ones belong to a running or killed merge and have no effect. A damaged record is an error, never
skipped: falling back to an older one would show rows twice or not at all.

What a merge record says of columns whose values a command has changed.

The entry ``corrections`` of the record has lists [id, name, value, generation, rows, changed, filledBefore,
filledAfter, digestBefore, digestAfter]; it is left out where no column was changed. Digests add up: what history has of
a column is what its sources had, less all ``before``, plus all ``after``. So rows that were merged since need no
entry, and a later merge carries the list on.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from sparkhaven.store.digest import add, from_hex
from sparkhaven.store.errors import CorruptFileError, LockLostError
from sparkhaven.store.framing import RecordKind
from sparkhaven.store.io.fs import Lock
from sparkhaven.store.layout import check_partition
from sparkhaven.store.merges.merge_run import (
    ColumnDrop,
    MergePhase,
    MergeRun,
    Proof,
    RowDeletion,
    decode_drops,
    decode_left_out,
    decode_run,
    encode_drops,
    encode_left_out,
    encode_run,
)
from sparkhaven.store.places import TablePlace
from sparkhaven.store.types.committed_columns import FileState, RangeStats, decode_range, encode_range
from sparkhaven.store.types.model import NOW
from sparkhaven.store.types.row_ranges import RowRanges


@dataclass(frozen=True, slots=True)
class ColumnCorrection:
    """One change of one column: of all ``rows`` that history had, of which ``changed`` got another value.

    ``value``: the expression, or the name of the function. ``generation``: the merge that wrote it. ``filled_before``
    and ``filled_after``: rows with a value. ``before`` and ``after``: digests of the column, as 32 hex digits.
    """

    id: int
    name: str
    value: str
    generation: int
    rows: int
    changed: int
    filled_before: int
    filled_after: int
    before: str
    after: str


def corrected(digest: int, corrections: Iterable[ColumnCorrection], column: int) -> int:
    """The digest that a column has after its corrections; ``digest``: that of its sources."""
    for correction in corrections:
        if correction.id == column:
            digest = add(digest, from_hex(correction.after), -from_hex(correction.before))
    return digest


def more_values(corrections: Iterable[ColumnCorrection], column: int) -> int:
    """How many more rows have a value by the corrections of a column; below 0: fewer."""
    return sum(c.filled_after - c.filled_before for c in corrections if c.id == column)


def encode_corrections(corrections: Sequence[ColumnCorrection]) -> list[list[int | str]]:
    return [
        [c.id, c.name, c.value, c.generation, c.rows, c.changed, c.filled_before, c.filled_after, c.before, c.after]
        for c in corrections
    ]


def decode_corrections(entries: Iterable[Sequence[Any]]) -> tuple[ColumnCorrection, ...]:
    """The inverse of ``encode_corrections``; TypeError where a part is missing."""
    return tuple(ColumnCorrection(*entry) for entry in entries)


KIND = RecordKind(
    b"SHVMRG3\n",
    "merge record",
    "generation",
    "run `sparkhaven inspect {}` and restore it from a copy. No other file has its content",
)
NO_ROWS = "0" * 32
"""The digest of no rows."""
REMEMBERED_BYTES = 1 << 18  # of a record
_FILE = re.compile(r"(0|[1-9][0-9]{0,17})\.json\Z")
_VALIDATED = re.compile(r"(0|[1-9][0-9]{0,17})\.validation\Z")


InputKey = tuple[str, str, int]
"""Stream, internal partition, and the epoch that made the location."""


@dataclass(frozen=True, slots=True, order=True)
class MergeInput:
    """An intraday location whose first ``rows`` rows are in the outputs.

    ``since`` is the epoch that made the location, ``epoch`` the one at which it was pinned. A re-merge from
    history carries the inputs of the record that it replaces, so that rows stay counted once. Rows of an import have no
    stream and epoch -1; where it replaced merged rows, their inputs stay with 0 rows. ``withdrawn``: how many of
    the rows were withdrawn in the stream when they were merged, and are not in the outputs; ``withdrawn_crc``: which
    ones.
    """

    stream: str
    internal: str
    since: int
    epoch: int
    rows: int
    withdrawn: int = 0
    withdrawn_crc: int = 0

    def leaves_out(self, withdrawn: RowRanges) -> bool:
        """Whether of the rows that it took exactly those were withdrawn that are among ``withdrawn``."""
        inside = withdrawn.within(0, self.rows)
        return (inside.rows, inside.crc) == (self.withdrawn, self.withdrawn_crc)

    def without_rows(self) -> MergeInput:
        """The location as a witness alone, of whose rows none is in the outputs."""
        return replace(self, rows=0, withdrawn=0, withdrawn_crc=0)

    @property
    def key(self) -> InputKey:
        """Which location it is: one that was removed and created again is another."""
        return self.stream, self.internal, self.since


@dataclass(frozen=True, slots=True)
class MergeOutput:
    """One historical location of the date.

    ``digests`` is column -> digest as 32 hex digits; ``files`` is name -> size and CRC-32 of the data region.
    ``stats`` may be empty: then nothing can be skipped. ``indexes``: files of indexes, by their path below the
    location, with size and CRC-32 of the whole file. ``row_digest``: of its rows, all columns together, by
    ``store.digest``, as 32 hex digits. It decides whether two locations have the same rows. ``named_by``:
    the version of the schema whose names the files, digests and statistics have (``Column.at``), not beyond that of the
    record.
    """

    internal: str
    rows: int
    digests: dict[str, str] = field(default_factory=dict)
    files: dict[str, FileState] = field(default_factory=dict)
    stats: dict[str, tuple[RangeStats, ...]] = field(default_factory=dict)
    indexes: dict[str, FileState] = field(default_factory=dict)
    row_digest: str = NO_ROWS
    named_by: int = NOW


@dataclass(frozen=True, slots=True)
class MergeRecord:
    """The state of one merge of one date: ``phase`` is the last finished one.

    ``replaces`` names the internal partitions of earlier generations that this one retires. ``source`` is ``intraday``,
    ``history`` (re-merge after intraday was removed) or ``import``. ``run``: sort columns, formula, plan and times of
    the merge; readers ignore it. ``schema_version``: whose names the proof and the run have, and the outputs that were
    written then; those that were kept or copied say by which they are named. ``column_drops``: what the outputs lack by
    command; ``corrections``: what they have otherwise than the sources, by command.
    """

    table: str
    value: str
    generation: int
    phase: MergePhase
    inputs: tuple[MergeInput, ...]
    outputs: tuple[MergeOutput, ...]
    proof: Proof | None = None
    source: str = "intraday"
    schema_version: int = 1
    time_ms: int = 0
    replaces: tuple[str, ...] = ()
    run: MergeRun = MergeRun()
    column_drops: tuple[ColumnDrop, ...] = ()
    corrections: tuple[ColumnCorrection, ...] = ()

    @property
    def rows(self) -> int:
        """The rows of all outputs."""
        return sum(output.rows for output in self.outputs)

    @property
    def complete(self) -> bool:
        """Whether readers take the date's history from this record."""
        return self.phase.reached(MergePhase.RECORD)

    @property
    def emptied(self) -> bool:
        """Whether it has dropped all history of the date; not where a merge had no rows that were not withdrawn."""
        if self.outputs or self.proof is None or self.run.destinations:
            return False
        return self.proof.dropped > self.proof.left_out.withdrawn

    @property
    def deletions(self) -> tuple[RowDeletion, ...]:
        """What a command has deleted from history."""
        return self.proof.left_out.deletions if self.proof is not None else ()

    @property
    def changed_by_command(self) -> bool:
        """Whether history is another than intraday would give, which later merges keep."""
        return bool(self.corrections or self.deletions)

    @property
    def dropped_columns(self) -> tuple[tuple[str, int], ...]:
        return tuple((drop.name, drop.rows) for drop in self.column_drops)

    @property
    def published_ms(self) -> int:
        """When readers began to use it (ms); the merge may have started long before."""
        return self.time_ms if self.run.switched_ms is None else self.run.switched_ms


IMPORTED = "import"  # the source of a record of rows that no stream has, and the internal partition of that input


def with_imported(inputs: Sequence[MergeInput], rows: int) -> tuple[MergeInput, ...]:
    """The inputs with so many rows more that no stream has."""
    given = MergeInput("", IMPORTED, 0, -1, rows)
    before = sum(taken.rows for taken in inputs if taken.key == given.key)
    others = (taken for taken in inputs if taken.key != given.key)
    return tuple(sorted((replace(given, rows=before + rows), *others)))


def merged_rows(record: MergeRecord | None) -> dict[InputKey, int]:
    """How many rows of each location a record has taken in; none without a record."""
    return {taken.key: taken.rows for taken in record.inputs} if record else {}


def encode_record(record: MergeRecord) -> bytes:
    """The bytes of a record file; the same record gives the same bytes."""
    return KIND.encode(record.generation, _to_json(record))


def decode_record(data: bytes, where: object) -> MergeRecord:
    """A record from the bytes of its file; raises CorruptFileError with the byte, or UnsupportedVersionError.

    The last few are remembered by their bytes: queries in turn read the same ones.
    """
    return _remembered(data, where) if len(data) <= REMEMBERED_BYTES else _decoded(data, where)


def _decoded(data: bytes, where: object) -> MergeRecord:
    return KIND.decode(data, where, _from_json)


_remembered = lru_cache(maxsize=64)(_decoded)


def store_record(place: TablePlace, record: MergeRecord) -> None:
    store_records(place, [record])


def store_records(place: TablePlace, records: Iterable[MergeRecord]) -> None:
    """Stores merge records of several dates, which share the syncs."""
    base, files = place.merges, {}
    for record in records:
        path = base / check_partition("partition value", record.value) / f"{record.generation}.json"
        files[path] = encode_record(record)
    place.fs.keep_all_dirs([path.parent for path in files if place.fs.stat(path) is None], place.layout.root)
    place.fs.replace_all(files)


def generations(place: TablePlace, value: str) -> list[int]:
    """Numbers of the records of a date, ascending, complete or not.

    CorruptFileError where there is the validation of a newer merge: an older record would hide or double rows.
    """
    directory = place.merges / check_partition("partition value", value)
    names = place.fs.names(directory)
    numbers = sorted(int(match[1]) for name in names if (match := _FILE.match(name)))
    validated = max((int(match[1]) for name in names if (match := _VALIDATED.match(name))), default=0)
    if validated > max(numbers, default=0):
        raise _missing(
            directory / f"{validated}.json", f"the record of a merge that was validated: {validated}.validation"
        )
    return numbers


def load_record(place: TablePlace, value: str, generation: int) -> MergeRecord:
    """The record of one generation; it must name the table, the date and the generation of its path."""
    path = place.merges.joinpath(value, f"{generation}.json")
    record = decode_record(place.fs.read(path), path)
    named = (record.table, record.value, record.generation)
    if named != (str(place.table), value, generation):
        raise KIND.damaged("is in a wrong directory", path, (str(place.table), value, generation), named)
    return record


def newest(place: TablePlace, value: str, *, complete: bool = True, below: int | None = None) -> MergeRecord | None:
    """The newest record of a date (default: the newest complete one), of a generation below ``below``."""
    for generation in reversed(generations(place, value)):
        if below is not None and generation >= below:
            continue
        record = load_record(place, value, generation)
        if record.complete or not complete:
            return record
    return None


def lock_table(place: TablePlace) -> Lock:
    """The lock that merge, removal, rollback and rewriting of a table share. LockLostError: it is held."""
    directory = place.merges
    place.fs.keep_dirs(directory, place.layout.root)
    lock = place.fs.lock(directory / ".lock")
    if lock is None:
        raise LockLostError(
            "another merge, removal or rollback of this table is running",
            where=directory / ".lock",
            hint="wait until it ends, then run this again",
        )
    return lock


def all_values(place: TablePlace) -> list[str]:
    """Partition values with a merge, finished or not, sorted; one listing, no file is opened."""
    return [name for name in place.fs.names(place.merges) if not name.startswith(".")]


def record_missing(place: TablePlace, value: str) -> CorruptFileError:
    """The error for a date of which intraday rows were removed with proof, and that has no merge record."""
    return _missing(place.merges / value, "the record of the merge that has its rows")


def _missing(path: object, expected: str) -> CorruptFileError:
    return CorruptFileError(
        "a merge record is missing, so the rows that history has of this date are unknown",
        where=path,
        expected=expected,
        found="no such record",
        hint="restore the directory of the date below .merges from a copy. History itself was not changed",
    )


def _input(taken: MergeInput) -> list[str | int]:
    withdrawn = (taken.withdrawn, taken.withdrawn_crc) if taken.withdrawn else ()
    return [taken.stream, taken.internal, taken.since, taken.epoch, taken.rows, *withdrawn]


def _files(states: dict[str, FileState]) -> dict[str, list[int]]:
    return {name: [state.size, state.crc] for name, state in states.items()}


def _to_json(record: MergeRecord) -> dict[str, Any]:
    proof = record.proof
    return {
        "table": record.table,
        "value": record.value,
        "generation": record.generation,
        "phase": record.phase,
        "source": record.source,
        "schemaVersion": record.schema_version,
        "timeMs": record.time_ms,
        "replaces": list(record.replaces),
        "details": encode_run(record.run),
        "inputs": [_input(taken) for taken in record.inputs],
        "outputs": [
            {
                "internal": output.internal,
                "rows": output.rows,
                "digests": output.digests,
                "rowDigest": output.row_digest,
                "files": _files(output.files),
                "stats": {name: [encode_range(s) for s in ranges] for name, ranges in output.stats.items()},
                **({"indexes": _files(output.indexes)} if output.indexes else {}),
                **({"namedBy": output.named_by} if output.named_by < record.schema_version else {}),
            }
            for output in record.outputs
        ],
        "proof": proof
        and {
            "rowsIn": proof.rows_in,
            "rowsOut": proof.rows_out,
            "digestsIn": proof.digests_in,
            "digestsOut": proof.digests_out,
            "dropped": proof.dropped,
            **encode_left_out(proof.left_out),
        },
        **encode_drops(record.column_drops),
        **({"corrections": encode_corrections(record.corrections)} if record.corrections else {}),
    }


def _from_json(data: Mapping[str, Any]) -> MergeRecord:
    proof = data["proof"]
    return MergeRecord(
        table=data["table"],
        value=data["value"],
        generation=data["generation"],
        phase=MergePhase(data["phase"]),
        inputs=tuple(MergeInput(*entry) for entry in data["inputs"]),
        outputs=tuple(
            MergeOutput(
                entry["internal"],
                entry["rows"],
                entry["digests"],
                {name: FileState(*state) for name, state in entry["files"].items()},
                {name: tuple(decode_range(s) for s in ranges) for name, ranges in entry["stats"].items()},
                {name: FileState(*state) for name, state in entry.get("indexes", {}).items()},
                entry["rowDigest"],
                entry.get("namedBy", data["schemaVersion"]),
            )
            for entry in data["outputs"]
        ),
        proof=proof
        and Proof(
            proof["rowsIn"],
            proof["rowsOut"],
            proof["digestsIn"],
            proof["digestsOut"],
            decode_left_out(proof),
        ),
        source=data["source"],
        schema_version=data["schemaVersion"],
        time_ms=data["timeMs"],
        replaces=tuple(data["replaces"]),
        run=decode_run(data["details"]),
        column_drops=decode_drops(data),
        corrections=decode_corrections(data.get("corrections", ())),
    )

"""The proof that a removal requires: history holds what a date's newest merge read, and a validation has passed.

======================  ======================================================================================
stored validation       what a removal does
======================  ======================================================================================
passed                  proceeds
missing                 validates the date itself and stores the result
stale                   the same: the date was merged again since, or the rules of the schema have changed
of some modes only      the same, unless a rule has failed: then it is refused
failed, not evaluated   is refused; ``validate`` shows why, ``--allow-unevaluated`` accepts the latter
damaged                 is refused; ``validate`` replaces it
======================  ======================================================================================

The proof does not cover rows that came after the merge: their locations are refused, whatever the validation says.
The states that a removal goes by are cached, so that removing a year of dates reads each commit log once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sparkhaven.readers.checks.history import stored_entries
from sparkhaven.store import next_steps
from sparkhaven.store.epochs.files.lock import lock_commits
from sparkhaven.store.epochs.files.removals import read_removals
from sparkhaven.store.epochs.reading.stream_state import load_stream
from sparkhaven.store.epochs.state.log_values import LocationState
from sparkhaven.store.epochs.state.removed_locations import Removal
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.errors import LockLostError, TableNotFoundError, ValidationFailedError
from sparkhaven.store.format.table import table_size
from sparkhaven.store.io.fs import Fs, Lock
from sparkhaven.store.layout import PARQUET, LocationKey, TableName
from sparkhaven.store.merges.history import column_digests, in_columns
from sparkhaven.store.merges.merge_records import MergeInput, MergeOutput, MergeRecord, newest
from sparkhaven.store.merges.validations import Validation, binding, load_validation, store_validation
from sparkhaven.store.places import TablePlace
from sparkhaven.store.scan.column_file import committed_column, open_parquet
from sparkhaven.store.scan.seen_history import require_recorded
from sparkhaven.store.schema.deployed.deploy import load_deployed
from sparkhaven.store.types.model import TableSchema
from sparkhaven.store.volumes import require_volumes
from sparkhaven.writers.merge.plan.merge_pins import Pins
from sparkhaven.writers.merge.sources.merge_source import check_crc
from sparkhaven.writers.validation.date_validation import require_columns, uncovered_columns, validate_date

_SEAL = object()
LOCK_TRIES, LOCK_PAUSE_S = 500, 0.02
Stamp = tuple[tuple[int, int] | None, ...]


class RemovalProof:
    """Evidence that history holds a date's merged rows. Only ``prove`` makes one; without it nothing is removed."""

    __slots__ = ("record", "table", "validation")

    def __init__(self, table: TableName, record: MergeRecord, validation: Validation, *, seal: object) -> None:
        if seal is not _SEAL:
            raise ValidationFailedError(
                "the removal proof was not made by ``prove``",
                expected="sparkhaven.writers.removal.removal_proof.prove",
                hint="merge the date, then prove it",
            )
        self.table, self.record, self.validation = table, record, validation

    def input_of(self, stream: str, location: LocationState) -> MergeInput:
        """What the merge has read of a location: of one that it did not know no row."""
        key = (stream, location.key.internal, location.since)
        none = MergeInput(*key, location.epoch, 0)
        return next((taken for taken in self.record.inputs if taken.key == key), none)

    def evidence(self) -> dict[str, Any]:
        proof = self.record.proof
        assert proof is not None  # noqa: S101  prove saw it
        return {
            "generation": self.record.generation,
            "rows": proof.rows_out,
            "dropped": proof.dropped,
            **({"withdrawn": proof.left_out.withdrawn} if proof.left_out.withdrawn else {}),
            **({"columnDrops": [[d.id, d.name, d.rows] for d in drops]} if (drops := self.record.column_drops) else {}),
            **_by_command(self.record),
            "digests": dict(proof.digests_out),
            "outputs": [[output.internal, output.rows] for output in self.record.outputs],
            "validation": {
                "binding": self.validation.binding,
                "rules": len(self.validation.results),
                "notEvaluated": [result.rule for result in self.validation.unevaluated],
            },
        }


def _by_command(record: MergeRecord) -> dict[str, Any]:
    """Columns and rows in which history differs from intraday by command."""
    corrections = [[c.id, c.name, c.value, c.changed] for c in record.corrections]
    deleted = [[d.where, d.rows] for d in record.deletions]
    return {**({"corrections": corrections} if corrections else {}), **({"deleted": deleted} if deleted else {})}


def prove(
    place: TablePlace,
    value: str,
    *,
    tolerant: bool = False,
    dry_run: bool = False,
    time_ms: int = 0,
    pins: Pins | None = None,
    on_progress: Callable[[str], None] = lambda _: None,
    validation: Validation | None = None,
) -> RemovalProof:
    """Checks that history holds what the date's newest merge read: record, index, files, checksums, validation.

    A missing or stale validation is run and, without ``dry_run``, stored with ``time_ms``. ``tolerant`` accepts rules
    that cannot be evaluated. ``validation`` was just made, and stands for the stored one.

    TableNotFoundError: no complete merge. ValidationFailedError: record, index and files disagree, or the validation
    has not passed. CorruptFileError: a file differs from what was merged.
    """
    record = newest(place, value)
    if record is None:
        raise TableNotFoundError(
            "there is no proof that history holds this date",
            where=f"{place.table} {value}",
            expected="a complete merge",
            found="none",
            hint=next_steps.merge(place.table, value),
        )
    if record.proof is None or not record.proof.holds:
        raise _unproven(record, "rows and digests equal on both sides", "no proof" if record.proof is None else "other")
    schema = load_deployed(place)
    _check_sums(in_columns(record, schema), schema)
    require_volumes(place, record)
    require_recorded(place, value, record)
    _check_index(place, record)
    for output in record.outputs:
        _check_output(place, record, output)
        _require_own(place.fs, place.history_location(LocationKey(output.internal, value)), schema, output)
    pins = pins or Pins(place)
    require_columns(uncovered_columns(place, schema, record, pins.locations(value)), schema, value)
    validation = validation or load_validation(place, record)
    if validation is not None and validation.failed and _same(validation, record, schema):
        validation.require()
    if validation is None or validation.modes or not _same(validation, record, schema):
        modes = f" in {', '.join(validation.modes)} only" if validation and validation.modes else " with other rules"
        why = "was never validated" if validation is None else f"was validated{modes}"
        on_progress(f"{value}: merge {record.generation} {why}. Validating it")
        validation = validate_date(place, value, pins=pins, tolerant=tolerant, time_ms=time_ms)
        if not dry_run:
            store_validation(place, validation)
    if tolerant:
        validation = replace(validation, tolerant=True)
    return RemovalProof(place.table, record, validation.require(), seal=_SEAL)


def _same(validation: Validation, record: MergeRecord, schema: TableSchema) -> bool:
    """Whether it is of this merge, by these rules."""
    return validation.binding == binding(record, schema.rules, validation.modes)


def require_own_files(fs: Fs, directory: Path, schema: TableSchema, files: Collection[str], named_by: int) -> None:
    """Raises if a committed column file of a location belongs to another column.

    The proof does not notice it: both sides have the same wrong values.
    """
    for column in (c.at(named_by).within(files) for c in (*schema.stored, *schema.retired) if c.files):
        if column.files[0] in files:
            committed_column(fs, directory / column.files[0], column)


def _require_own(fs: Fs, directory: Path, schema: TableSchema, output: MergeOutput) -> None:
    """Raises if a file of a location of history, in either format, belongs to another column."""
    require_own_files(fs, directory, schema, output.files, output.named_by)
    if PARQUET in output.files:
        parquet = open_parquet(fs, directory, {PARQUET: output.files[PARQUET].size}, output.rows)
        for column in schema.stored:
            parquet.column(column.at(output.named_by))


def _check_sums(record: MergeRecord, schema: TableSchema) -> None:
    assert record.proof is not None  # noqa: S101
    rows = record.rows
    if rows != record.proof.rows_out or sum(i.rows for i in record.inputs) != record.proof.rows_in:
        raise _unproven(record, f"{record.proof.rows_out} rows in the outputs", f"{rows} rows")
    for name, digest in column_digests(record, schema.stored).items():
        if digest != (expected := record.proof.digests_out[name]):
            raise _unproven(record, f"digest {expected} of column {name}", digest)


def _check_index(place: TablePlace, record: MergeRecord) -> None:
    entries = stored_entries(place) or {}
    for output in record.outputs:
        entry = entries.get(LocationKey(output.internal, record.value))
        rows = 0 if entry is None else entry.rows  # the index is read without locations of no rows
        if rows != output.rows:
            raise _unproven(record, f"{output.rows} rows of {output.internal} in the location index", rows)


def _check_output(place: TablePlace, record: MergeRecord, output: MergeOutput) -> None:
    directory = place.history_location(LocationKey(output.internal, record.value))
    size = table_size.load(place.fs, directory)
    recorded = {name: state.size for name, state in output.files.items()}
    if size is None or size.size != output.rows or dict(size.data_file_sizes) != recorded:
        rows_here = "no table.size" if size is None else f"{size.size} rows"
        raise _unproven(record, f"{output.rows} rows in {directory}", rows_here)
    for name, state in output.files.items():
        check_crc(place.fs, directory / name, state, stream="")


def _unproven(record: MergeRecord, expected: object, found: object) -> ValidationFailedError:
    return ValidationFailedError(
        "there is no proof that history holds this date",
        where=f"{record.table} {record.value}, merge {record.generation}",
        expected=expected,
        found=found,
        hint="merge the date again with --rewrite, then validate it. Nothing was removed",
        phase="prove",
    )


class States:
    """One state per stream of the table at ``place``, reloaded only when another process has written to its logs.

    The caller holds the stream's commit lock, so that no commit comes in between. ``pause`` waits for a busy one.
    """

    def __init__(self, place: TablePlace, pause: Callable[[float], None] = time.sleep) -> None:
        self.place, self._pause = place, pause
        self._known: dict[str, tuple[Stamp, StreamState]] = {}
        self._removals: dict[str, tuple[Stamp, dict[str, list[Removal]]]] = {}

    def commits_held(self, stream: str) -> Lock:
        """The commit lock of a stream; LockLostError: it stays busy."""
        path = self.place.of_stream(stream).stream_removals
        for _ in range(LOCK_TRIES):
            lock = lock_commits(self.place.fs, path)
            if lock is not None:
                return lock
            self._pause(LOCK_PAUSE_S)
        raise LockLostError(
            "the stream's commit lock is busy. It commits without a pause, or another removal is running",
            where=path,
            expected=f"the lock within {LOCK_TRIES * LOCK_PAUSE_S:.0f} s",
            hint="run it again",
        )

    def of(self, stream: str) -> StreamState:
        """The newest committed state of a stream, with every removal."""
        stamp = self._stamp(stream)
        known = self._known.get(stream)
        if known is None or known[0] != stamp:
            known = self._known[stream] = (stamp, load_stream(self.place.of_stream(stream)))
        return known[1]

    def removals(self, stream: str, value: str) -> list[Removal]:
        """The removals of a date that a stream has on record, oldest first. Raises what ``read_removals`` raises."""
        stamp = self._stamp(stream)
        if stream not in self._removals or self._removals[stream][0] != stamp:
            by_date: dict[str, list[Removal]] = {}
            for _, removal in read_removals(self.place.of_stream(stream)).entries:
                by_date.setdefault(removal.key.value, []).append(removal)
            self._removals[stream] = (stamp, by_date)
        return self._removals[stream][1].get(value, [])

    def removed(self, stream: str, removals: Sequence[Removal]) -> None:
        """Applies removals that this process has just recorded under the same lock."""
        (_, state), stamp = self._known[stream], self._stamp(stream)
        for removal in removals:
            state.remove(removal)
        self._known[stream] = (stamp, state)
        if stream in self._removals:
            by_date = self._removals[stream][1]
            for removal in removals:
                by_date.setdefault(removal.key.value, []).append(removal)
            self._removals[stream] = (stamp, by_date)

    def _stamp(self, stream: str) -> Stamp:
        place = self.place.of_stream(stream)
        stats = map(place.fs.stat, (place.stream_log, place.stream_checkpoint, place.stream_removals))
        return tuple((stat.inode, stat.size) if stat else None for stat in stats)

"""What the epochs of a stream have added, by the commit records above its floor: for readers that follow it."""

from __future__ import annotations

from dataclasses import dataclass

from sparkhaven.store.epochs.reading.log_reader import LogFiles, read_files
from sparkhaven.store.epochs.state.log_records import CommitRecord, EpochRecord, WithdrawRecord
from sparkhaven.store.epochs.state.replay import chain
from sparkhaven.store.errors import SnapshotMovedError
from sparkhaven.store.framing.log_frames import refuse_damage
from sparkhaven.store.layout import LocationKey, stream_of
from sparkhaven.store.places import StreamPlace


@dataclass(frozen=True, slots=True)
class Step:
    """One epoch that was not rolled back: its number, the rows that it added, and its time (ms)."""

    epoch: int
    rows: int
    time_ms: int


@dataclass(frozen=True, slots=True)
class AddedRows:
    """Rows ``[start, stop)`` of a location. ``since``: the epoch that created it; None: one that was read before."""

    since: int | None
    start: int
    stop: int


class EpochChanges:
    def __init__(self, files: LogFiles) -> None:
        self._files = files
        table, stream = stream_of(files.path)
        listed = f"`sparkhaven epochs list {table} {stream}`"
        self._anew = f"start with a new checkpoint, at `earliest`, `latest` or a kept epoch ({listed})"
        self._records = chain(files.records, files.epoch, None, files.path)
        self.floor = files.epoch
        self.steps = tuple(
            Step(r.epoch, r.batch.rows, r.batch.time_ms) if isinstance(r, CommitRecord) else Step(r.epoch, 0, r.time_ms)
            for r in self._records
            if isinstance(r, EpochRecord)
        )

    @classmethod
    def of(cls, place: StreamPlace) -> EpochChanges:
        """Reads log and checkpoint; CorruptFileError if the log is damaged."""
        files = read_files(place)
        refuse_damage(files.found, files.path)
        return cls(files)

    @property
    def newest(self) -> int:
        return self.steps[-1].epoch if self.steps else self.floor

    def after(self, epoch: int) -> tuple[Step, ...]:
        """The epochs that follow one. SnapshotMovedError: it is not kept, was rolled back, or does not exist."""
        if epoch == self.floor:
            return self.steps
        for index, step in enumerate(self.steps):
            if step.epoch == epoch:
                return self.steps[index + 1 :]
        raise self._not_kept(epoch)

    def added(self, after: int, until: int) -> dict[LocationKey, AddedRows]:
        """The rows that the epochs after one, up to another, have added to each location.

        SnapshotMovedError: one of both is not kept or was rolled back; or a location was removed and created again in
        between, so that its first rows are gone.
        """
        wanted = {step.epoch for step in self.after(after)} - {step.epoch for step in self.after(until)}
        rows: dict[LocationKey, AddedRows] = {}
        for record in self._records:
            if not isinstance(record, CommitRecord) or record.epoch not in wanted:
                continue
            full = self._files.full(record)
            for report in full.batch.reports if isinstance(full, CommitRecord) else ():
                before = rows.get(report.key)
                if report.base_epoch == 0:
                    if before is not None:
                        raise self.left_unread(report.key, after, until)
                    rows[report.key] = AddedRows(record.epoch, 0, report.rows)
                else:
                    since, start = (before.since, before.start) if before else (None, report.base_rows)
                    rows[report.key] = AddedRows(since, start, report.rows)
        return rows

    def withdrawn(self, after: int, until: int) -> tuple[WithdrawRecord, ...]:
        """The records after one epoch, up to another, that have withdrawn rows. Raises what ``added`` raises."""
        wanted = {step.epoch for step in self.after(after)} - {step.epoch for step in self.after(until)}
        return tuple(r for r in self._records if isinstance(r, WithdrawRecord) and r.epoch in wanted)

    def withdrawn_since(self, record: WithdrawRecord, key: LocationKey, rows: int) -> SnapshotMovedError:
        """The error for rows that were withdrawn after they were read."""
        undone = f"epoch {record.epoch} undoes epoch {', '.join(map(str, record.undoes))}" if record.undoes else ""
        return SnapshotMovedError(
            "rows that this stream has read were withdrawn since",
            where=self._files.path,
            expected=f"the {rows} rows of {key.internal}/{key.value} that were read before",
            found=undone or f"epoch {record.epoch} withdraws them ({record.reason})",
            hint="remove the rows from what was derived from them, then go on with the option skipWithdrawn=true, which"
            f" passes over epochs that withdraw rows. Or {self._anew}",
        )

    def left_unread(self, key: LocationKey, after: int, until: int) -> SnapshotMovedError:
        """The error for rows that were removed from intraday before they were read."""
        return SnapshotMovedError(
            "rows were removed from intraday before this stream read them",
            where=self._files.path,
            expected=f"the rows that epochs {after + 1} to {until} added to {key.internal}/{key.value}",
            found="another location, or none",
            hint=f"merged rows are in history. Read the date {key.value} with spark.read, then {self._anew}",
        )

    def _not_kept(self, epoch: int) -> SnapshotMovedError:
        if epoch < self.floor:
            what = "the epoch up to which the stream was read is no longer kept"
            hint = f"{self._anew}. The writing stream keeps `keep_epochs` epochs"
        elif epoch > self.newest:
            what = "the epoch up to which the stream was read is not in its log"
            hint = f"if the log was restored from an older copy, restore it from a newer one. Else {self._anew}"
        else:
            what = "epochs that were read have been rolled back"
            hint = f"remove their rows from what was derived from them, then {self._anew}"
        return SnapshotMovedError(
            what,
            where=self._files.path,
            expected=f"an epoch from {self.floor} to {self.newest}",
            found=epoch,
            hint=hint,
        )

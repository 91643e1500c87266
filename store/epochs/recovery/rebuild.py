"""Rebuilds a lost or outdated commit log from what the locations themselves record (``table.size``).

A location records its rows, lengths and checksums of its files, epoch, schema version and stream; all bytes are
checked. It does not record source positions. Those come from the newest state that is still readable: log
and checkpoint, either of the two, or the head. If locations are newer than that state, the caller states the positions
(``PositionChoice``); else the new log is marked, and the stream commits nothing until the positions are given, so no
row is silently committed twice.

*Writer.* ``rebuild``, under all locks of the stream. In order: damaged locations are set aside if requested; old files
are copied to ``.streams/.replaced-<generation>``; the new checkpoint is written; the new log is written; the head is
removed. If it is interrupted, the log is still reported as missing or outdated, and the same call completes it. The new
epoch and generation are higher than all that anything in the tree names.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from sparkhaven.store.epochs.files.checkpoint import Checkpoint, encode_checkpoint
from sparkhaven.store.epochs.files.published_size import TABLE_SIZE
from sparkhaven.store.epochs.files.removals import empty_removals, read_removals
from sparkhaven.store.epochs.recovery.set_aside import SetAside, aside_of, note_path
from sparkhaven.store.epochs.recovery.survey import StreamSurvey, read_removed_locations
from sparkhaven.store.epochs.state.locations import Locations
from sparkhaven.store.epochs.state.log_records import OpenRecord, encode
from sparkhaven.store.epochs.state.log_values import REBUILT, LocationState
from sparkhaven.store.epochs.state.offsets import OffsetEnd, Offsets
from sparkhaven.store.epochs.state.replay import StreamState, fold
from sparkhaven.store.errors import CorruptFileError, FormatError, SettingsError, TableExistsError
from sparkhaven.store.format.table.table_size import TableSize, decode
from sparkhaven.store.framing import LOG_MAGIC, frame, header
from sparkhaven.store.io.fs import Fs, Lock
from sparkhaven.store.layout import Layout, LocationKey, TableName
from sparkhaven.store.places import StreamPlace, TablePlace

GIVE_POSITIONS = "give the positions instead: --position, --taken-until or --accept-positions"
REPLACED = ".replaced-"  # prefix of the directory with replaced files; the generation follows


@dataclass(frozen=True, slots=True)
class PositionChoice:
    """The source positions, for locations newer than the newest readable state.

    ``positions``: (topic, partition) -> next offset. ``taken_until``: files modified before it (ns) count as taken.
    ``accept``: the known positions are right although locations are newer. ``back``: rows after the known state are
    removed, and the source replays them.
    """

    positions: Mapping[tuple[str, int], int] = field(default_factory=dict)
    taken_until: int | None = None
    accept: bool = False
    back: bool = False

    @property
    def made(self) -> bool:
        return bool(self.positions) or self.taken_until is not None or self.accept or self.back


def rebuild(
    place: TablePlace,
    survey: StreamSurvey,
    choice: PositionChoice,
    *,
    aside: Collection[LocationKey] = (),
    time_ms: int,
    commit_lock: Lock | None = None,
) -> StreamState:
    """Writes the new log; returns its state. The caller holds the locks of stream and table, and ``commit_lock``.

    CorruptFileError: a location that is not in ``aside`` is damaged or missing. SettingsError, TableExistsError: the
    choice is not possible.
    """
    own = place.of_stream(survey.known.stream)
    state = plan_state(place, survey, choice, aside=aside)
    for key in sorted({*survey.damaged, *survey.missing} & set(aside)):
        _set_aside(own, key, survey, time_ms)
    for directory in _dropped(place, survey, choice):
        _move_aside(place.fs, directory, aside_of(directory, survey.epoch))
    log, checkpoint, head = own.stream_log, own.stream_checkpoint, own.stream_head
    with place.fs.during("rebuild-keep"):
        kept = place.streams / f"{REPLACED}{state.generation}"
        _keep(place.fs, place.layout, kept, (log, checkpoint, head, own.stream_removals))
    folded = 0
    if read_removed_locations(own) is None:
        empty_removals(own, commit_lock=commit_lock)
    else:
        folded = read_removals(own).end
    with place.fs.during("rebuild-checkpoint"):
        place.fs.replace(checkpoint, encode_checkpoint(Checkpoint(state, folded)))
    opened = OpenRecord(
        n=state.n + 1,
        epoch=state.epoch,
        generation=state.generation,
        time_ms=time_ms,
        boot_id=place.fs.boot_id(),
        pid=0,
        host="",
        query_id="rebuilt from locations",
        durability="fsync",
        keep_epochs=0,
        durable=state.epoch,
        schema_version=state.schema_version,
        columns=(),
        rule=state.rule,
    )
    with place.fs.during("rebuild-log"):
        place.fs.replace(log, header(LOG_MAGIC, state.epoch) + frame(encode(opened)))
    with place.fs.during("rebuild-head"):
        place.fs.unlink(head)
    return state


def plan_state(
    place: TablePlace, survey: StreamSurvey, choice: PositionChoice, *, aside: Collection[LocationKey] = ()
) -> StreamState:
    """The state at the start of the new log; raises what ``rebuild`` raises. Changes nothing."""
    known, epoch = survey.known, survey.epoch + 1
    _refuse_damage(place, survey, aside)
    locations: Mapping[LocationKey, LocationState] = survey.locations
    if choice.back:
        locations = _back(place.table, survey)
    offsets, files = Offsets(known.offsets), known.files.copy()
    ends = {source: end for source, end in offsets.items() if source[0] != REBUILT.topic}
    for (topic, partition), stop in choice.positions.items():
        ends[topic, partition] = OffsetEnd(stop, "", stop, "")
    if choice.taken_until is not None:
        files.take((), choice.taken_until)
    if not survey.complete and not choice.made:
        ends[REBUILT.topic, 0] = OffsetEnd(survey.epoch, "", known.epoch, "")
    versions = [location.schema_version for location in locations.values()]
    return replace(
        known,
        generation=survey.generation + 1,
        epoch=epoch,
        floor=epoch,
        files=files,
        locations=Locations(locations),
        schema_version=max([known.schema_version, *versions]),
        durability="fsync",
        durable=epoch,
        n=known.n + 1,
        offsets=Offsets(ends),
        rolled_back=fold(known.rolled_back, known.epoch, epoch) if choice.back else known.rolled_back,
    )


def _back(table: TableName, survey: StreamSurvey) -> dict[LocationKey, LocationState]:
    """The locations of the known state; refused if history has later rows, or if a location has changed since."""
    known = survey.known
    if known.offsets.unsettled is not None or not known.epoch:
        raise SettingsError(
            "there is no known state to roll back to",
            expected="an older log, checkpoint or head whose positions are known",
            found="none" if not known.epoch else "one that was rebuilt without its positions",
            hint=GIVE_POSITIONS,
        )
    for key, taken in survey.merged.items():
        if taken.epoch > known.epoch:
            raise TableExistsError(
                "the rollback would remove rows that are in history",
                where=f"{table} {key.internal}/{key.value}",
                expected=f"merges up to epoch {known.epoch}",
                found=f"{taken.rows} rows merged at epoch {taken.epoch}",
                hint=GIVE_POSITIONS,
            )
    locations = {}
    for key, then in known.locations.items():
        now = survey.locations.get(key)
        if key in survey.deleted:
            continue
        if not then.truncated and (now is None or now.since != then.since or now.rows < then.rows):
            raise TableExistsError(
                "a location differs from the known state",
                where=f"{table} {key.internal}/{key.value}",
                expected=f"{then.rows} rows since epoch {then.since}",
                found="nothing" if now is None else f"{now.rows} rows since epoch {now.since}",
                hint=GIVE_POSITIONS,
            )
        locations[key] = then if now is None else replace(then, epoch=survey.epoch + 1)
    return locations


def _refuse_damage(place: TablePlace, survey: StreamSurvey, aside: Collection[LocationKey]) -> None:
    for key, wrong in [*survey.damaged.items(), *((key, "it is not there") for key in survey.missing)]:
        if key not in aside:
            raise CorruptFileError(
                f"a location cannot be used: {wrong}",
                where=place.intraday_location(key),
                expected="files as its table.size records them",
                found=wrong,
                hint=f"restore it from a copy, or set it aside as well: --quarantine {key.internal}/{key.value}",
            )


def _keep(fs: Fs, layout: Layout, directory: Path, paths: Collection[Path]) -> None:
    fs.keep_dirs(directory, layout.root)
    kept = [path for path in paths if fs.stat(path) is not None]
    for path in kept:
        fs.write_new(directory / path.name, fs.read(path))
    fs.sync([directory / path.name for path in kept])
    fs.sync_dirs([directory])


def _dropped(place: TablePlace, survey: StreamSurvey, choice: PositionChoice) -> list[Path]:
    """Directories to drop: never published, or not in the state that is restored."""
    gone = (key for key in survey.locations if choice.back and key not in survey.known.locations)
    return [*survey.unpublished, *(place.intraday_location(key) for key in gone)]


def _move_aside(fs: Fs, directory: Path, moved: Path) -> None:
    if fs.stat(directory) is not None:
        with fs.during("rebuild-move"):
            fs.rename(directory, moved)
            fs.sync_dirs([directory.parent])


def _set_aside(place: StreamPlace, key: LocationKey, survey: StreamSurvey, time_ms: int) -> None:
    directory, then = place.intraday_location(key), survey.known.locations.get(key)
    try:
        record = decode(place.fs.read(directory / TABLE_SIZE), directory)
    except (OSError, FormatError):
        record = TableSize(then.rows if then else 0, 0, {}, epoch=then.epoch if then else 0)
    epoch, moved = record.epoch or 0, aside_of(directory, survey.epoch)
    reason = survey.damaged.get(key, "it is not there")
    since = then.since if then is not None else epoch
    note = SetAside(place.stream, key.internal, key.value, since, epoch, record.rows, reason, time_ms, str(moved))
    path = note_path(place, key, since)
    place.fs.keep_dirs(path.parent, place.layout.root)
    if place.fs.stat(path) is None:  # else an earlier run was stopped
        place.fs.replace(path, json.dumps(asdict(note), sort_keys=True).encode() + b"\n")
    _move_aside(place.fs, directory, moved)

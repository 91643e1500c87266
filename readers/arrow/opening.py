"""Opening a table: reads its schema and pins a snapshot, one epoch of each stream.

Only the deployed schema, the commit logs and the bytes of the location index are read. A read looks up history when it
runs, date by date, and finds it as it was.
"""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from sparkhaven.readers.arrow.pinned_table import PinnedTable
from sparkhaven.readers.arrow.pinned_user_table import pinned_user_table
from sparkhaven.readers.arrow.snapshot import Snapshot
from sparkhaven.store import next_steps
from sparkhaven.store.epochs.pins import Pin
from sparkhaven.store.epochs.reading.stream_state import list_epochs, list_streams, load_stream
from sparkhaven.store.epochs.recovery.witnesses import Witnesses, refuse
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.errors import InvalidNameError, SettingsError, TableNotFoundError, near
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.local_path import local_path
from sparkhaven.store.io.system_errors import as_storage_errors
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.merges.dropped_tables import doomed
from sparkhaven.store.places import StreamPlace, TablePlace, followed_root
from sparkhaven.store.scan import ranges
from sparkhaven.store.scan.checksums import Checks, ChecksumVerify, checks_of, chosen_mode
from sparkhaven.store.scan.history_pins import HistoryPin
from sparkhaven.store.scan.standing import has_standing
from sparkhaven.store.schema.deployed.deploy import deployed_tables, load_deployed
from sparkhaven.store.types.model import TableSchema
from sparkhaven.store.types.null_char import chosen_null_char, with_null_char
from sparkhaven.store.users.user_table import is_user_table, list_user_tables


def open_table(
    root: str | Path,
    name: str,
    *,
    epoch: int | Mapping[str, int] | None = None,
    as_of: datetime | str | None = None,
    checksum_verify: ChecksumVerify | None = None,
    null_char: str | int | None = None,
    skip_set_aside: bool = False,
    fs: Fs | None = None,
) -> Snapshot:
    """Opens ``NS.T`` below a database root, pinned at the newest epochs, at given ones, or as it was at a time.

    ``epoch`` is one number for a table of one stream, or stream -> epoch (streams left out: newest). ``as_of`` is a
    time with zone, or ISO text (default zone: UTC). With ``skip_set_aside`` reads omit the rows of damaged locations
    that were set aside (``Table.set_aside`` names them), else a read that needs them is a CorruptFileError. Raises
    TableNotFoundError for an unknown table, stream or epoch.

    ``checksum_verify`` says when reads compare committed bytes with their checksums: ``read`` when a file is first
    read in this process, whole, and later its growth (default; else SPARKHAVEN_CHECKSUM_VERIFY), ``open`` each time
    that it is opened, ``scrub`` and ``off`` never: then only `verify --deep` does. A difference is a CorruptFileError.

    ``null_char`` is the null of char in column files: 0xFFFF (default; else SPARKHAVEN_NULL_CHAR), or 0xFFFE for files
    that Deephaven wrote before November 2021.

    Intraday data of user tables is read where SPARKHAVEN_USER_INTRADAY names its directory below the root.
    """
    fs = fs or Fs()
    return open_place(
        TablePlace(fs, Layout(followed_root(fs, local_path(root))), TableName.parse(name)),
        epoch=epoch,
        as_of=as_of,
        checksum_verify=checksum_verify,
        null_char=null_char,
        skip_set_aside=skip_set_aside,
    )


def open_place(
    place: TablePlace,
    *,
    epoch: int | Mapping[str, int] | None = None,
    as_of: datetime | str | None = None,
    checksum_verify: ChecksumVerify | None = None,
    null_char: str | int | None = None,
    skip_set_aside: bool = False,
) -> Snapshot:
    """Opens the table at a place, as ``open_table`` does by its name."""
    checks, null = checks_of(chosen_mode(checksum_verify, os.environ)), chosen_null_char(null_char, os.environ)
    if epoch is not None and as_of is not None:
        raise SettingsError("epoch and as_of exclude each other", expected="one of the two", found="both")
    with as_storage_errors():
        user = is_user_table(place)
        try:
            schema = with_null_char(load_deployed(place), null)
        except TableNotFoundError:
            if user:
                return _user_table(place, checks, null, (epoch, as_of))
            if doomed(place) is not None:
                raise
            raise _no_table(place) from None
        if user:
            raise _ambiguous(place)
        streams = list_streams(place)
        if not streams:
            refuse(Witnesses(place, ()).locations())
        if as_of is None:
            pins = _pins(place.table, streams, epoch)
        else:
            moment = _milliseconds(as_of)
            pins = {stream: _epoch_at(place.of_stream(stream), moment) for stream in streams}
        held = [Pin.of(place.of_stream(stream), epoch=pins.get(stream)) for stream in streams]
        return Snapshot(pinned_table(place, schema, held, checks, skip_set_aside=skip_set_aside))


def _user_table(place: TablePlace, checks: Checks | None, null_char: int, pins: tuple[object, object]) -> Snapshot:
    epoch, as_of = pins
    if epoch is not None or as_of is not None:
        raise SettingsError(
            f"{place.table} is a user table, which has no epochs",
            where=place.user_definition,
            expected="neither epoch nor as_of",
            found="epoch" if epoch is not None else "as_of",
            hint="read it as it is now",
        )
    return Snapshot(pinned_user_table(place, checks, null_char))


def pinned_table(
    place: TablePlace,
    schema: TableSchema,
    held: Sequence[Pin],
    checks: Checks | None,
    *,
    skip_set_aside: bool = False,
    seen: Collection[str] | None = None,
) -> PinnedTable:
    """A table at pinned states of all its streams; CorruptFileError if a file names a later epoch than their logs.

    Of streams that are not in ``seen`` the snapshot has no rows; None: all are.
    """
    witnesses = Witnesses(place, [pin.state for pin in held])
    refuse(witnesses.beside_logs())
    for pin in held:
        refuse(witnesses.removed_by(pin.state.stream, pin.named))
    states = [p.state if seen is None or p.state.stream in seen else StreamState(p.state.stream) for p in held]
    intraday = {value for state in states for value in state.locations.dates()}
    snapshot = ranges.Snapshot(place.table, schema, tuple(states), HistoryPin.of(place, intraday), time.time_ns())
    return PinnedTable(place, snapshot, held, checks, skip_set_aside=skip_set_aside)


def _pins(table: TableName, streams: Sequence[str], epoch: int | Mapping[str, int] | None) -> dict[str, int]:
    if epoch is None:
        return {}
    if not isinstance(epoch, Mapping):
        if len(streams) != 1:
            raise SettingsError(
                f"{table} has {len(streams)} streams, and one epoch is given",
                expected="stream=epoch for one or more of: " + ", ".join(streams),
                found=epoch,
                hint=next_steps.streams(table),
            )
        return {streams[0]: int(epoch)}
    for stream in epoch:
        if stream not in streams:
            raise TableNotFoundError(
                f"{table} has no stream {stream!r}",
                expected=near(stream, streams),
                found=repr(stream),
                hint=next_steps.streams(table),
            )
    return {stream: int(number) for stream, number in epoch.items()}


def _epoch_at(place: StreamPlace, time_ms: int) -> int:
    """The newest epoch committed at that time and not rolled back since; 0 before the first one."""
    past = [entry.epoch for entry in list_epochs(place) if entry.live and entry.time_ms <= time_ms]
    if past:
        return past[-1]
    newest = load_stream(place)
    floor = load_stream(place, epoch=newest.floor)
    if any(location.time_ms > time_ms for location in floor.locations.values()):
        raise TableNotFoundError(
            f"stream {place.stream!r} retains no epoch of that time",
            where=place.stream_log,
            expected=f"epoch {newest.floor} or newer, by its time",
            found=datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(),
            hint=f"`sparkhaven epochs list {place.table} {place.stream}` lists the retained epochs with their times",
        )
    return newest.floor


def _milliseconds(moment: datetime | str) -> int:
    try:
        parsed = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
    except ValueError:
        raise SettingsError(
            "as_of is not a time", expected="ISO, like 2026-11-21T09:30:00Z", found=repr(moment)
        ) from None
    zoned = parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)
    return int(zoned.timestamp() * 1000)


def _ambiguous(place: TablePlace) -> InvalidNameError:
    return InvalidNameError(
        f"{place.table} names two tables, one of the system and one of a user",
        expected="one table of this name",
        found=f"{place.schema} and {place.user_definition}",
        hint="move one of them to another root or name",
    )


def require_table(place: TablePlace) -> None:
    """TableNotFoundError: there is neither a system table of this name nor a user table."""
    if place.fs.stat(place.schema) is None and not is_user_table(place):
        raise _no_table(place)


def known_tables(fs: Fs, layout: Layout) -> list[TableName]:
    """Every table that ``open_table`` may be asked for: those with a deployed schema, and user tables."""
    return sorted({*deployed_tables(fs, layout), *list_user_tables(fs, layout)})


def _no_table(place: TablePlace) -> TableNotFoundError:
    names = [str(name) for name in known_tables(place.fs, place.layout)]
    if place.fs.stat(place.layout.root) is None:
        hint = "there is no such directory. Check --root or SPARKHAVEN_ROOT"
    elif has_standing(place):
        hint = (
            "history of the table stands there without a schema, which has the types. Run `sparkhaven schema deploy "
            f"FILE`, or copy {place.schema.name} and {place.schema_history.name} from the root that it comes from"
        )
    else:
        hint = "`sparkhaven tables` lists the tables. A table is created by the first run of its stream"
    return TableNotFoundError(
        f"no table {place.table}",
        where=place.schema,
        expected=near(str(place.table), names),
        found=str(place.table),
        hint=hint,
    )

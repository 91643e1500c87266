"""The command ``scrub``: every committed byte is read again, at a bounded rate.

``scrub``: reads every committed byte again at a bounded rate, and goes on where it stopped.

A round takes the tables by name and the files of a table by path. Each file is read in blocks up to its committed
length, and its CRC-32 compared with the record. What is appended meanwhile comes with the next round. Of a file that
does not agree the records are loaded anew and it is read again: rows may have been truncated, deleted, rolled back or
merged anew meanwhile.

The position is kept in ``.scrub/position`` below the root, with what the round has found. It is a cache: without it,
or with one that is damaged or came with the files of another root, a round begins. A root that is never written, as a
snapshot, has none: each round over it begins anew.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from math import inf
from pathlib import Path
from typing import Annotated

import typer

from sparkhaven.ingest.settings import parse_size
from sparkhaven.jobs.cli.context import CliContext
from sparkhaven.jobs.cli.options import AnyTableArgument, DryRun, help_end, seconds_of
from sparkhaven.readers.checks.committed import CommittedFile, check_file, committed_files
from sparkhaven.readers.checks.findings import Finding
from sparkhaven.store.errors import EXIT_BAD_DATA, CorruptFileError, LockLostError, SettingsError, counted
from sparkhaven.store.framing import dump, frame, frame_at, load
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.io.read_only_roots import is_writable
from sparkhaven.store.layout import Layout, TableName
from sparkhaven.store.native.checked_columns import crc32
from sparkhaven.store.places import TablePlace
from sparkhaven.store.schema.deployed.deploy import load_deployed, standing_tables
from sparkhaven.store.user_tables import list_user_tables

BLOCK = 1 << 20  # bytes between two looks at the clock
SAVED_EVERY = 5.0  # seconds between two writes of the position
KEPT = 1000  # findings of a round that are kept


@dataclass(frozen=True, slots=True)
class ScrubPosition:
    """Where a round is: behind the file ``after`` of a table; of the next, ``file``, it has read ``offset`` bytes of
    data, with this CRC-32.

    ``root``: that of the files. ``size``, ``files``: bytes and files that the round has read. ``findings``: what it
    found, as JSON.
    """

    root: str
    round: int = 1
    table: str = ""
    after: str = ""
    file: str = ""
    offset: int = 0
    crc: int = 0
    size: int = 0
    files: int = 0
    findings: tuple[dict[str, str], ...] = ()

    def encode(self) -> bytes:
        return frame(dump({**asdict(self), "findings": list(self.findings)}))


def decode_position(data: bytes, where: object) -> ScrubPosition:
    """The position of these bytes. CorruptFileError: they are damaged, or of another release."""
    sound = frame_at(data, 0, len(data))
    if sound is None:
        raise CorruptFileError("position of a scrub is damaged", where=where, expected="its checksum", found="another")
    values = load(sound.payload, where)
    try:
        return ScrubPosition(**{**values, "findings": tuple(values["findings"])})
    except (KeyError, TypeError) as error:
        raise CorruptFileError("position of a scrub is of another release", where=where, found=error) from error


class _PausedError(Exception):
    """The time of the round is over."""


@dataclass(slots=True)
class Pace:
    """Lets so many bytes a second pass."""

    rate: int
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    _due: float = field(init=False, default=0.0)

    def take(self, count: int) -> None:
        self._due = max(self._due, self.clock()) + count / self.rate
        if (early := self._due - self.clock()) > 0:
            self.sleep(early)


@dataclass(slots=True)
class ScrubRound:
    """One round over a root, or over one ``table``, from ``position`` on.

    ``until``: the time of the clock at which it pauses. The position is kept on disk for rounds over a root only, and
    where ``keeps`` says so.
    """

    fs: Fs
    layout: Layout
    pace: Pace
    note: Callable[[str], None]
    table: TableName | None = None
    until: float = inf
    keeps: bool = True
    position: ScrubPosition = field(default_factory=lambda: ScrubPosition(""))
    _saved: float = field(init=False, default=0.0)

    def run(self) -> bool:
        """Reads on. False: it pauses, and the next run goes on there."""
        names = tables(self.fs, self.layout) if self.table is None else [self.table]
        return all(self._table(TablePlace(self.fs, self.layout, name)) for name in names if self._is_ahead(name))

    def _is_ahead(self, name: TableName) -> bool:
        return str(name) >= self.position.table

    def _table(self, place: TablePlace) -> bool:
        files, unread = committed_files(place)
        if str(place.table) != self.position.table:
            self.note(
                f"{place.table}: {counted(len(files), 'file')}, {counted(sum(f.state.size for f in files), 'byte')}"
            )
            self.position = replace(self.position, table=str(place.table), after="", file="")
            self._keep(unread)
        return all(self._file(place, file) for file in files if str(file.path) > self.position.after)

    def _file(self, place: TablePlace, file: CommittedFile) -> bool:
        if str(file.path) != self.position.file or self.position.offset > file.state.size:
            self._begin(file)
        defects = self._read(file, self.until)
        if self.position.offset < file.state.size:
            self.save()
            return False
        self._keep(self._again(place, file.path) if defects else [])
        self.position = replace(self.position, after=str(file.path), files=self.position.files + 1)
        return True

    def _begin(self, file: CommittedFile) -> None:
        self.position = replace(self.position, file=str(file.path), offset=0, crc=0)

    def _again(self, place: TablePlace, path: Path) -> list[Finding]:
        """What is found in a file by the records as they are now; nothing where it is not theirs any more."""
        files, _ = committed_files(place)
        defects: list[Finding] = []
        for file in files:
            if file.path == path:
                self._begin(file)
                defects += self._read(file, inf)
        return defects

    def _read(self, file: CommittedFile, until: float) -> list[Finding]:
        """Reads a file from the position on, which moves, until a time; what is found once it was read to its end.

        Bytes behind the committed ones are no damage: a stream is writing them.
        """
        try:
            defects = [*check_file(self.fs, file, partial(self._crc, until))]
        except _PausedError:
            return []
        self.position = replace(self.position, offset=file.state.size)
        return [defect for defect in defects if defect.severity == "error"]

    def _crc(self, until: float, fs: Fs, path: Path, start: int, size: int) -> int:
        """The CRC-32 of a file, at the pace of the round, from the position on."""
        content = fs.open(path)
        while (offset := self.position.offset) < size:
            if self.pace.clock() >= until:
                raise _PausedError
            count = min(BLOCK, size - offset)
            crc = crc32(content.view(start + offset, count), self.position.crc)
            self.position = replace(self.position, offset=offset + count, crc=crc, size=self.position.size + count)
            self.pace.take(count)
            if self.pace.clock() >= self._saved + SAVED_EVERY:
                self.save()
        return self.position.crc

    def _keep(self, findings: list[Finding]) -> None:
        for defect in findings:
            self.note(defect.text())
        kept = (*self.position.findings, *(defect.to_json() for defect in findings))
        self.position = replace(self.position, findings=kept[:KEPT])

    def save(self) -> None:
        """Writes the position: a round that is killed goes on from there."""
        self._saved = self.pace.clock()
        if self.table is None and self.keeps:
            self.fs.replace(self.layout.scrub() / "position", self.position.encode())

    def end(self) -> None:
        """The next round begins at the first file."""
        self.position = ScrubPosition(str(self.layout.root), round=self.position.round + 1)
        self.save()


def tables(fs: Fs, layout: Layout) -> list[TableName]:
    """All tables of a root in the order of a round: those of streams and history, log tables, and those of users."""
    return sorted({*standing_tables(fs, layout), *list_user_tables(fs, layout)}, key=str)


def load_position(fs: Fs, layout: Layout, note: Callable[[str], None]) -> ScrubPosition:
    """Where the last round stopped; the beginning of the first one without a position, or with one of no use."""
    path, first = layout.scrub() / "position", ScrubPosition(str(layout.root))
    try:
        position = decode_position(fs.read(path), path)
    except FileNotFoundError:
        return first
    except CorruptFileError as error:
        note(f"{path}: {error.what}. A round begins")
        return first
    if position.root != first.root:  # a copy has other bytes on disk, none of which were read
        note(f"{path}: position of a scrub is of another root, {position.root}. A round begins")
        return first
    return position


@contextmanager
def only_scrub(fs: Fs, layout: Layout) -> Iterator[bool]:
    """Holds the lock of scrubs of a root; whether the position is kept there. LockLostError: another one runs.

    A root that is never written has no lock: several may read it.
    """
    if not is_writable(layout.root):
        yield False
        return
    fs.mkdirs(layout.scrub())
    lock = fs.lock(layout.scrub() / "lock")
    if lock is None:
        raise LockLostError("another scrub of this database runs", where=layout.scrub(), hint="wait until it has ended")
    try:
        yield True
    finally:
        lock.release()


RATE = "50MB"
RETRY = "another scrub of the database runs"
LEAST_ROUND = 60.0  # seconds from one round to the next with --forever


def register(app: typer.Typer) -> None:
    lines = "scrub --rate 50MB", "scrub --for 2h", "scrub Nyc13.Flight --rate 200MB"
    ending = help_end(*lines, done="no damage so far", bad_data="the round has found damage", retry=RETRY)
    app.command(epilog=ending)(scrub)


def scrub(
    cli: CliContext,
    name: AnyTableArgument = None,
    rate: Annotated[
        str, typer.Option("--rate", metavar="SIZE", help="Bytes a second, like 50MB. A plain number is MB.")
    ] = RATE,
    time_limit: Annotated[
        str | None,
        typer.Option("--for", metavar="TIME", help="Pause after this time, like 2h. Default: a whole round."),
    ] = None,
    forever: Annotated[bool, typer.Option("--forever", help="Begin the next round after each round.")] = False,
    dry_run: DryRun = False,
) -> None:
    """Reads all committed bytes again, at a bounded rate.

    Compares the checksum of each committed file with its record, beside ingest, merge and maintenance. A round that
    pauses or is killed goes on where it stopped. A round over a named table, or over a snapshot or mirror, begins anew.
    """
    fs, layout = Fs(), cli.database()
    table = None if name is None else TableName.parse(name)
    if table is not None and table not in tables(fs, layout):
        load_deployed(TablePlace(fs, layout, table))  # raises: no such table
    pace = Pace(_rate(rate))
    seconds = float("inf") if time_limit is None else seconds_of(time_limit, "--for", '"30 min" or "2h"')
    until = time.monotonic() + seconds
    if dry_run:
        _plan(cli, fs, layout, table, pace)
        return
    defects = 0
    with only_scrub(fs, layout) as keeps:
        while True:
            began = time.monotonic()
            running = ScrubRound(fs, layout, pace, cli.note, table, until, keeps)
            defects += _round(cli, running)
            if not forever or time.monotonic() >= until:
                break
            time.sleep(max(0.0, LEAST_ROUND - (time.monotonic() - began)))
    if defects:
        cli.fails(EXIT_BAD_DATA)


def _round(cli: CliContext, running: ScrubRound) -> int:
    """Runs or continues a round and reports it; the number of its findings."""
    if running.table is None and running.keeps:
        running.position = load_position(running.fs, running.layout, cli.note)
    began = time.monotonic()
    complete = running.run()
    done = running.position
    if complete:
        running.end()
    record = {
        "round": done.round,
        "complete": complete,
        "files": done.files,
        "bytes": done.size,
        "seconds": round(time.monotonic() - began, 3),
        "errors": len(done.findings),
        "findings": list(done.findings),
    }
    state = "complete" if complete else f"paused in {done.table}"
    cli.result(
        record,
        f"round {done.round} {state}: {counted(done.files, 'file')}, {counted(done.size, 'byte')}, "
        f"{counted(len(done.findings), 'error')}",
    )
    return len(done.findings)


def _plan(cli: CliContext, fs: Fs, layout: Layout, table: TableName | None, pace: Pace) -> None:
    position = load_position(fs, layout, cli.note)
    names = tables(fs, layout) if table is None else [table]
    sizes = [file.state.size for name in names for file in committed_files(TablePlace(fs, layout, name))[0]]
    seconds = sum(sizes) / pace.rate
    record = {"round": position.round, "files": len(sizes), "bytes": sum(sizes), "seconds": round(seconds, 3)}
    cli.result(
        record, f"a whole round: {counted(len(sizes), 'file')}, {counted(sum(sizes), 'byte')}, {seconds:,.0f} seconds"
    )


def _rate(text: str) -> int:
    try:
        return parse_size(f"{text}MB" if text.strip().isdigit() else text)
    except ValueError:
        raise SettingsError("--rate is not a size", expected='bytes a second like "50MB"', found=text) from None

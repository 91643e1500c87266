"""Spark's own checkpoint of a query after a power cut: what is wrong with it, and a repair. Plan first, then apply.

Spark renames the files of its checkpoint into place and syncs none of them, so after a power cut they may be empty,
torn or gone; a query then does not start. Our own streams make their checkpoint anew at each start. A query that
writes with ``foreachBatch`` and has a checkpoint of its own needs this. Found are

* ``metadata`` missing or unreadable: the id of the query is in the commit log too, and comes back from there;
* entries of ``offsets`` and ``commits`` that are empty or torn, and what comes after the newest batch that is whole;
* a planned batch whose source has lost which files it meant: unless the commit log has it, it is planned anew;
* batches that Spark holds for done and the commit log has not: their rows would never come;
* things among the entries that Spark did not put there.

Nothing is deleted: ``apply`` copies the checkpoint first, and moves entries into that copy's place, never away.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from store.errors import TableExistsError, TableNotFoundError
from store.io.fs import Fs

METADATA, OFFSETS, COMMITS, SOURCES = "metadata", "offsets", "commits", "sources"


@dataclass(frozen=True, slots=True)
class Damage:
    """One thing that is wrong; ``remedy`` says what ``apply`` does about it."""

    path: Path
    what: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Repair:
    """What is wrong, and what goes: ``drop`` files, ``metadata`` (new content, None: it stays).

    ``last`` is the newest batch that Spark will hold for planned, ``done`` the newest that it holds for done; None:
    the query starts from the beginning, and positions in the commit log decide what is new.
    """

    checkpoint: Path
    damages: tuple[Damage, ...]
    drop: tuple[Path, ...]
    metadata: bytes | None
    last: int | None
    done: int | None


@dataclass(slots=True)
class _Entries:
    """The numbered entries of one log of Spark."""

    sound: set[int]
    broken: dict[int, str]
    foreign: list[Path]


def plan_repair(
    fs: Fs, checkpoint: Path, *, query_id: str | None = None, batch: int | None = None, new_id: str = ""
) -> Repair:
    """Looks at a checkpoint and says what is wrong; changes nothing. TableNotFoundError: there is none.

    ``query_id`` and ``batch`` are what the commit log knows of the query: its id, and its newest committed batch. They
    are believed where the id is that of the checkpoint, or where the checkpoint has lost its own. ``new_id`` is
    the id for a checkpoint whose own nobody knows.
    """
    found = fs.stat(checkpoint)
    if found is None or not found.is_dir:
        raise TableNotFoundError(
            "there is no Spark checkpoint",
            where=checkpoint,
            expected="a directory with metadata, offsets and commits",
            found="nothing" if found is None else "a file",
            hint="a query makes its checkpoint at its first start; without one it simply starts",
        )
    damages: list[Damage] = []
    metadata, own_id = _metadata(fs, checkpoint, query_id or new_id, damages)
    offsets, commits = _entries(fs, checkpoint / OFFSETS), _entries(fs, checkpoint / COMMITS)
    known = batch if batch is not None and query_id == own_id else None
    last, done = _newest(offsets.sound, commits.sound, known)
    if last is not None and last != done and (known is None or known < last) and _lost_files(fs, checkpoint, last):
        last = done
    drop: list[Path] = []
    for name, entries, top in ((OFFSETS, offsets, last), (COMMITS, commits, done)):
        for number in sorted(entries.sound | entries.broken.keys()):
            path = checkpoint / name / str(number)
            beyond = top is None or number > top
            if number in entries.broken:
                damages.append(Damage(path, entries.broken[number], "goes into the backup"))
            elif beyond:
                ahead = known is not None and name == COMMITS and number > known
                why = "Spark holds this batch for done, the commit log has no epoch of it" if ahead else ""
                damages.append(
                    Damage(path, why or "comes after the newest batch that is whole", "goes into the backup")
                )
            if beyond or number in entries.broken:
                drop += [path, *_checksum(fs, path)]
        damages.extend(Damage(path, "is no entry of Spark's", "left alone") for path in entries.foreign)
    damages.extend(_sources(fs, checkpoint, last, drop))
    return Repair(checkpoint, tuple(damages), tuple(drop), metadata, last, done)


def apply_repair(fs: Fs, repair: Repair, backup: Path) -> None:
    """Copies the checkpoint to ``backup``, durably, then drops and writes what was planned.

    The query must not be running. TableExistsError: something is at ``backup`` already; nothing was changed.
    """
    if fs.stat(backup) is not None:
        raise TableExistsError("the place of the backup is taken", where=backup, hint="name another place")
    with fs.during("checkpoint-backup"):
        for source, target in _tree(fs, repair.checkpoint, backup):
            fs.keep_dirs(target.parent, backup.parent)
            fs.write_new(target, fs.read(source))
            fs.sync([target])
            fs.sync_dirs([target.parent])
    with fs.during("checkpoint-repair"):
        for path in reversed(repair.drop):  # the newest first: a repair that stops leaves a shorter plan, not a gap
            fs.unlink(path)
        fs.sync_dirs(dict.fromkeys(path.parent for path in repair.drop))
        if repair.metadata is not None:
            for path in _checksum(fs, repair.checkpoint / METADATA):
                fs.unlink(path)
            fs.replace(repair.checkpoint / METADATA, repair.metadata)


def _metadata(fs: Fs, checkpoint: Path, known: str, damages: list[Damage]) -> tuple[bytes | None, str | None]:
    path = checkpoint / METADATA
    data = fs.read(path) if fs.stat(path) is not None else None
    try:
        value = json.loads(data) if data else None
        if isinstance(value, dict) and isinstance(value.get("id"), str):
            return None, value["id"]
    except ValueError:
        pass
    what = "is missing" if data is None else "is empty" if not data else "cannot be read"
    damages.append(Damage(path, what, f"written again with the query id {known}"))
    return json.dumps({"id": known}, separators=(",", ":")).encode(), known


def _entries(fs: Fs, directory: Path) -> _Entries:
    found = _Entries(set(), {}, [])
    for name in fs.names(directory):
        path = directory / name
        stat = fs.stat(path)
        if name.startswith("."):
            continue  # checksums and temporary files of Spark
        if not name.isdigit() or stat is None or stat.is_dir:
            found.foreign.append(path)
        elif (why := _broken(fs.read(path))) is not None:
            found.broken[int(name)] = why
        else:
            found.sound.add(int(name))
    return found


def _broken(data: bytes) -> str | None:
    """Why an entry cannot be used: a version line, then JSON line by line, or ``-`` for a source that had nothing."""
    if not data.strip(b"\0"):
        return "is empty" if not data else "holds nothing but zeros"
    version, _, rest = data.partition(b"\n")
    if not (version.startswith(b"v") and version[1:].isdigit()):
        return "does not begin with a version"
    lines = rest.split(b"\n")
    try:
        for line in lines:
            if line != b"-":
                json.loads(line)
    except ValueError:
        return "is torn"
    return None


def _newest(planned: set[int], done: set[int], known: int | None) -> tuple[int | None, int | None]:
    """The newest batch to keep in each log: planned ones follow a done one, or are the first that there is."""
    if known is not None:
        done = {number for number in done if number <= known}
    for number in sorted(planned, reverse=True):
        if number in done:
            return number, number
        if number - 1 in done and number - 1 in planned:
            return number, number - 1
    first = 0 if 0 in planned else None
    return first, None


def _lost_files(fs: Fs, checkpoint: Path, batch: int) -> bool:
    """Whether a source of files has lost its entry for a planned batch: the plan names the entry by its number."""
    for source, line in enumerate(fs.read(checkpoint / OFFSETS / str(batch)).splitlines()[2:]):
        named = json.loads(line) if line != b"-" else None
        if isinstance(named, dict) and isinstance(number := named.get("logOffset"), int) and number >= 0:
            paths = [checkpoint / SOURCES / str(source) / name for name in (str(number), f"{number}.compact")]
            if all(fs.stat(path) is None or _broken(fs.read(path)) is not None for path in paths):
                return True
    return False


def _sources(fs: Fs, checkpoint: Path, last: int | None, drop: list[Path]) -> Iterator[Damage]:
    """Logs that sources keep, at most one entry a batch. What is whole there stays: it is planned again from there."""
    for source in fs.names(checkpoint / SOURCES):
        for name in fs.names(checkpoint / SOURCES / source):
            path = checkpoint / SOURCES / source / name
            number = name.removesuffix(".compact")  # each tenth holds those before it too, which stay for a while
            if not number.isdigit() or (why := _broken(fs.read(path))) is None:
                continue
            if last is None or int(number) > last:
                yield Damage(path, why, "goes into the backup")
                drop += [path, *_checksum(fs, path)]
            else:
                yield Damage(path, why, "cannot be mended: start with a new checkpoint")


def _checksum(fs: Fs, path: Path) -> list[Path]:
    beside = path.with_name(f".{path.name}.crc")
    return [beside] if fs.stat(beside) is not None else []


def _tree(fs: Fs, source: Path, target: Path) -> Iterator[tuple[Path, Path]]:
    for name in fs.names(source):
        found = fs.stat(source / name)
        if found is not None and found.is_dir:
            yield from _tree(fs, source / name, target / name)
        elif found is not None:
            yield source / name, target / name

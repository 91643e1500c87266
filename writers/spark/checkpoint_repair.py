"""Repairs Spark's checkpoint of a query after a power failure: plan first, then apply.

Spark renames the files of its checkpoint into place and syncs none of them, so after a power failure they may be empty,
torn or missing; then the query does not start. sparkhaven's own streams renew their checkpoint at each start. This
module is for a query with ``foreachBatch`` and a checkpoint of its own. It finds

* ``metadata`` missing or unreadable: the query id is restored from the commit log;
* empty or torn entries of ``offsets`` and ``commits``, and all entries after the newest intact batch;
* a planned batch whose source has lost its list of files: it is planned again, unless the commit log has it;
* batches that Spark counts as done and the commit log lacks: their rows would be lost;
* foreign files among the entries.

Nothing is deleted: ``apply_repair`` first copies the checkpoint to a backup.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from sparkhaven.store.errors import TableExistsError, TableNotFoundError
from sparkhaven.store.io.fs import Fs, files_below

METADATA, OFFSETS, COMMITS, SOURCES = "metadata", "offsets", "commits", "sources"


@dataclass(frozen=True, slots=True)
class Damage:
    """One defect; ``remedy`` says what ``apply_repair`` does about it."""

    path: Path
    what: str
    remedy: str


@dataclass(frozen=True, slots=True)
class CheckpointRepair:
    """The defects, the files to ``drop``, and the new ``metadata`` (None: unchanged).

    ``last``: newest batch that Spark then counts as planned; ``done``: newest that it counts as done. None: the query
    starts from the beginning, and the positions in the commit log decide what is new.
    """

    checkpoint: Path
    damages: tuple[Damage, ...]
    drop: tuple[Path, ...]
    metadata: bytes | None
    last: int | None
    done: int | None


@dataclass(slots=True)
class _Entries:
    """The numbered entries of one of Spark's logs."""

    sound: set[int]
    broken: dict[int, str]
    foreign: list[Path]


def plan_repair(
    fs: Fs, checkpoint: Path, *, query_id: str | None = None, batch: int | None = None, new_id: str = ""
) -> CheckpointRepair:
    """Plans the repair of a checkpoint; changes nothing. TableNotFoundError: there is none.

    ``query_id`` and ``batch``: the query's id and newest committed batch in the commit log. They are used if the id is
    that of the checkpoint, or if the checkpoint has lost its own. ``new_id``: the id if none is known.
    """
    stat = fs.stat(checkpoint)
    if stat is None or not stat.is_dir:
        raise TableNotFoundError(
            "there is no Spark checkpoint",
            where=checkpoint,
            expected="a directory with metadata, offsets and commits",
            found="nothing" if stat is None else "a file",
            hint="nothing to repair. A query creates its checkpoint at its first start",
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
                damages.append(Damage(path, entries.broken[number], "moves to the backup"))
            elif beyond:
                ahead = known is not None and name == COMMITS and number > known
                why = "Spark counts this batch as done, the commit log has no epoch of it" if ahead else ""
                damages.append(Damage(path, why or "comes after the newest intact batch", "moves to the backup"))
            if beyond or number in entries.broken:
                drop += [path, *_checksum(fs, path)]
        damages.extend(Damage(path, "is not an entry of Spark", "left alone") for path in entries.foreign)
    damages.extend(_sources(fs, checkpoint, last, drop))
    return CheckpointRepair(checkpoint, tuple(damages), tuple(drop), metadata, last, done)


def apply_repair(fs: Fs, repair: CheckpointRepair, backup: Path) -> None:
    """Copies the checkpoint to ``backup``, durably, then drops and writes files as planned.

    The query must not be running. TableExistsError: ``backup`` exists; nothing was changed.
    """
    if fs.stat(backup) is not None:
        raise TableExistsError("the backup directory already exists", where=backup, hint="choose another directory")
    with fs.during("checkpoint-backup"):
        for source in files_below(fs, repair.checkpoint):
            target = backup / source.relative_to(repair.checkpoint)
            fs.keep_dirs(target.parent, backup.parent)
            fs.write_new(target, fs.read(source))
            fs.sync([target])
            fs.sync_dirs([target.parent])
    with fs.during("checkpoint-repair"):
        for path in reversed(repair.drop):  # newest first: an interrupted repair leaves no gap
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
    damages.append(Damage(path, what, f"rewritten with the query id {known}"))
    return json.dumps({"id": known}, separators=(",", ":")).encode(), known


def _entries(fs: Fs, directory: Path) -> _Entries:
    entries = _Entries(set(), {}, [])
    for name in fs.names(directory):
        path = directory / name
        stat = fs.stat(path)
        if name.startswith("."):
            continue  # checksums and temporary files of Spark
        if not name.isdigit() or stat is None or stat.is_dir:
            entries.foreign.append(path)
        elif (why := _broken(fs.read(path))) is not None:
            entries.broken[int(name)] = why
        else:
            entries.sound.add(int(name))
    return entries


def _broken(data: bytes) -> str | None:
    """Why an entry is unusable, else None: it has a version line, then per line JSON, or ``-`` for an empty source."""
    if not data.strip(b"\0"):
        return "is empty" if not data else "has only zero bytes"
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
    """The newest batch to keep in each log; a planned batch follows a done one or is the first."""
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
    """Whether a file source has lost its entry for a planned batch; the plan refers to the entry by number."""
    for source, line in enumerate(fs.read(checkpoint / OFFSETS / str(batch)).splitlines()[2:]):
        named = json.loads(line) if line != b"-" else None
        if isinstance(named, dict) and isinstance(number := named.get("logOffset"), int) and number >= 0:
            paths = [checkpoint / SOURCES / str(source) / name for name in (str(number), f"{number}.compact")]
            if all(fs.stat(path) is None or _broken(fs.read(path)) is not None for path in paths):
                return True
    return False


def _sources(fs: Fs, checkpoint: Path, last: int | None, drop: list[Path]) -> Iterator[Damage]:
    """Defects of the logs of sources, at most one entry per batch. Intact entries stay: planning starts from them."""
    for source in fs.names(checkpoint / SOURCES):
        for name in fs.names(checkpoint / SOURCES / source):
            path = checkpoint / SOURCES / source / name
            number = name.removesuffix(".compact")  # every tenth includes the entries before it
            if not number.isdigit() or (why := _broken(fs.read(path))) is None:
                continue
            if last is None or int(number) > last:
                yield Damage(path, why, "moves to the backup")
                drop += [path, *_checksum(fs, path)]
            else:
                yield Damage(path, why, "cannot be repaired. Start with a new checkpoint")


def _checksum(fs: Fs, path: Path) -> list[Path]:
    beside = path.with_name(f".{path.name}.crc")
    return [beside] if fs.stat(beside) is not None else []

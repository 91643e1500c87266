"""What can become of one file of the tree, and which files there are: the rows and groups of the table of damages."""

from __future__ import annotations

import ctypes
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from sparkhaven.store.layout import TableName
from tests.support.witness.beside import HIVE, META
from tests.support.witness.story import DONE, MERGED, OPEN, PARQUET, REMOVED, STREAM, TABLE

DAMAGES = ("lost", "older copy", "newer copy", "foreign copy", "bit flipped", "cut short", "empty", "unreadable")
CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH = 1, 2
CAPABILITY_VERSION_3 = 0x20080522


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of file: an example in the tree, and a file of the same kind that belongs elsewhere.

    ``state``: what the streams have committed depends on it, so that every command must be right or tell, itself.
    ``cache``: nothing depends on it, so that a check need not speak of it. ``table``: the one that is merged.
    ``stream``: the one that is started.
    """

    name: str
    path: str
    foreign: str
    state: bool = False
    cache: bool = False
    table: TableName = TABLE
    stream: str = STREAM


_STREAMS = "Intraday/Test/Event/.streams"
_OPEN, _OPEN_B = f"Intraday/Test/Event/a/{OPEN}/Event", f"Intraday/Test/Event/b/{OPEN}/Event"
_TRUNCATED = f"Intraday/Test/Event/b/{DONE}/Event"
_HISTORY, _HISTORY_2 = f"Systems/Test/Partitions/0/{DONE}/Event", f"Systems/Test/Partitions/0/{MERGED}/Event"
_PARQUET = f"Systems/Test/Partitions/0/{PARQUET}/Event"
_SIDECAR = f"{_PARQUET}/.dh_metadata/indexes/Sym/index_Sym_table.parquet"
_META, _HIVE = "Systems/Test/Extended/Meta", "Systems/Test/Extended/Hive"
_LOCATIONS = f"{_HIVE}/.locations_table"
_LEAF = f"Date={MERGED}/part-27dde640cfb2-00000.parquet"  # its name follows from its rows and columns
_DROPS = ".dropped/Test.Gone"
_MERGES = "Systems/Test/MetadataIndex/.Event.merges"

STREAM_KINDS = (
    Kind(".streams (directory)", _STREAMS, _STREAMS, state=True),
    Kind(".log", f"{_STREAMS}/feed.log", f"{_STREAMS}/other.log", state=True),
    Kind(".checkpoint", f"{_STREAMS}/feed.checkpoint", f"{_STREAMS}/other.head", state=True),
    Kind(".head", f"{_STREAMS}/feed.head", f"{_STREAMS}/other.head", cache=True),
    Kind(".removals", f"{_STREAMS}/feed.removals", f"{_STREAMS}/other.removals", state=True),
    Kind(".failure", f"{_STREAMS}/feed.failure", f"{_STREAMS}/other.failure", cache=True),
    Kind(".lock", f"{_STREAMS}/feed.lock", f"{_STREAMS}/other.lock", cache=True),
    Kind(".quarantine (ledger)", f"{_STREAMS}/feed.quarantine", f"{_STREAMS}/feed.lock"),
    Kind(".removed", f"{_STREAMS}/{REMOVED}.removed", "elsewhere.removed", stream=REMOVED),
    Kind(".drop", f"{_DROPS}/2.drop", f"{_DROPS}/1.drop"),
    Kind(".drop of a table whose files are gone", f"{_DROPS}/1.drop", f"{_DROPS}/2.drop"),
)
LOCATION_KINDS = (
    Kind("owner mark (.stream)", f"{_OPEN}/.stream", f"Intraday/Test/Event/z/{OPEN}/Event/.stream", cache=True),
    Kind("table.size", f"{_OPEN}/table.size", f"{_OPEN_B}/table.size"),
    Kind("table.tbl", f"{_OPEN}/table.tbl", "elsewhere.tbl"),
    Kind(".dat, prefix", f"{_OPEN}/N.dat", f"{_OPEN}/Half.dat"),
    Kind(".dat, data", f"{_OPEN}/N.dat", f"{_OPEN_B}/N.dat"),
    Kind(".sym", f"{_OPEN}/Sym.sym", f"{_OPEN_B}/Sym.sym"),
    Kind(".sym.bytes", f"{_OPEN}/Sym.sym.bytes", f"{_OPEN_B}/Sym.sym.bytes"),
    Kind(".bytes", f"{_OPEN}/Note.bytes", f"{_OPEN_B}/Note.bytes"),
    Kind("tombstone (table.size of a truncated location)", f"{_TRUNCATED}/table.size", f"{_OPEN_B}/table.size"),
)
HISTORY_KINDS = (
    Kind("history .dat, prefix", f"{_HISTORY_2}/Sym.dat", f"{_HISTORY_2}/Src.dat"),
    Kind("history .dat, data", f"{_HISTORY_2}/N.dat", f"{_OPEN_B}/N.dat"),
    Kind("history .ovr", f"{_HISTORY}/Sym.ovr", f"{_HISTORY}/Sym.sym"),
    Kind("history .sym", f"{_HISTORY}/Sym.sym", f"{_HISTORY}/Src.sym"),
    Kind("history table.size", f"{_HISTORY}/table.size", f"{_HISTORY_2}/table.size"),
    Kind("table.parquet", f"{_PARQUET}/table.parquet", _SIDECAR),
    Kind("table.size beside table.parquet", f"{_PARQUET}/table.size", f"{_HISTORY_2}/table.size"),
    Kind("index of table.parquet", _SIDECAR, f"{_PARQUET}/table.parquet"),
    Kind("Index-<Col>, .dat", f"{_PARQUET}/Index-Sym/dh_begin_pos.dat", f"{_PARQUET}/Index-Sym/dh_end_pos.dat"),
    Kind("Index-<Col> (directory)", f"{_PARQUET}/Index-Sym", f"{_PARQUET}/.dh_metadata"),
    Kind(".tlmi", "Systems/Test/MetadataIndex/Event.tlmi", "elsewhere.tlmi"),
    Kind("merge record", f"{_MERGES}/{MERGED}/1.json", f"{_MERGES}/{DONE}/1.json"),
    Kind("merge record of a truncated date", f"{_MERGES}/{DONE}/1.json", f"{_MERGES}/{MERGED}/1.json"),
    Kind("schema", "Schemas/Test.Event.schema", "elsewhere.schema"),
    Kind("schema history", "Schemas/Test.Event.history.json", "elsewhere.history.json"),
)
EXTENDED_KINDS = (
    Kind("extended tree (directory)", _META, _HIVE, table=META),
    Kind("manifest of an extended tree", f"{_META}/_manifest.json", f"{_HIVE}/_manifest.json", table=META),
    Kind("_metadata of an extended tree", f"{_META}/_metadata", f"{_META}/_common_metadata", table=META),
    Kind("_common_metadata of an extended tree", f"{_META}/_common_metadata", f"{_META}/_metadata", table=META),
    Kind("leaf of an extended tree", f"{_META}/{_LEAF}", f"{_PARQUET}/table.parquet", table=META),
    Kind("Locations table (directory)", _LOCATIONS, f"{_META}/Date={MERGED}", table=HIVE),
    Kind("Locations table, .dat", f"{_LOCATIONS}/Size.dat", f"{_LOCATIONS}/LastModifiedNanos.dat", table=HIVE),
)
KINDS = (*STREAM_KINDS, *LOCATION_KINDS, *HISTORY_KINDS, *EXTENDED_KINDS)


@dataclass(frozen=True, slots=True)
class Trees:
    """The same database at three times, and files of another one."""

    older: Path
    now: Path
    newer: Path
    elsewhere: Path

    def damaged(self, target: Path, kind: Kind, damage: str, seed: int = 0) -> bool:
        """Copies the tree of now to ``target`` and does the damage; False where it would change nothing."""
        shutil.copytree(self.now, target, symlinks=True)
        path, sound = target / kind.path, self.now / kind.path
        if damage == "unreadable":
            path.chmod(0)
            return True
        if damage == "lost":
            remove(path)
            return True
        if damage in ("older copy", "newer copy", "foreign copy"):
            return self._copy(path, kind, damage)
        if sound.is_dir():
            return False
        data = bytearray(sound.read_bytes())
        if damage == "bit flipped":
            flip(data, kind, seed)
        else:
            del data[len(data) // 2 if damage == "cut short" else 0 :]
        path.write_bytes(data)
        return bytes(data) != sound.read_bytes()

    def _copy(self, path: Path, kind: Kind, damage: str) -> bool:
        if damage == "foreign copy":
            inside = self.now / kind.foreign
            other = inside if inside.exists() else self.elsewhere / kind.foreign
        else:
            other = (self.older if damage == "older copy" else self.newer) / kind.path
        if not other.exists() or same(other, path):
            return False
        remove(path)
        shutil.copytree(other, path) if other.is_dir() else shutil.copyfile(other, path)
        return True


def flip(data: bytearray, kind: Kind, seed: int) -> None:
    """One bit at a place that follows from ``seed``: of the prefix of a column file or of its data, else anywhere."""
    start, stop = 0, len(data)
    if kind.name.endswith("prefix"):
        stop = 400  # what the prefix says; the rest of its 4,096 bytes is filling
    elif kind.name.endswith("data"):
        start = 4096
    at = start + (seed * 7919 + 131) % (stop - start)
    data[at] ^= 1 << seed % 8


def remove(path: Path) -> None:
    """A file, or a directory with all that is in it."""
    shutil.rmtree(path) if path.is_dir() else path.unlink()


def same(one: Path, other: Path) -> bool:
    """Whether two files, or two directories, hold the same."""
    if one.is_dir():
        names = {p.name for p in one.iterdir()} | {p.name for p in other.iterdir()}
        return all((one / n).exists() and (other / n).exists() and same(one / n, other / n) for n in names)
    return one.read_bytes() == other.read_bytes()


@contextmanager
def permissions_hold() -> Iterator[None]:
    """Root reads and writes what permissions forbid; within this context, in this thread, it does not."""
    if os.geteuid() != 0:
        yield
        return
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    held = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable: low words, then high words
    _check(libc.capget(header, held))
    fewer = (ctypes.c_uint32 * 6)(*held)
    fewer[0] &= ~(1 << CAP_DAC_OVERRIDE | 1 << CAP_DAC_READ_SEARCH)
    _check(libc.capset(header, fewer))
    try:
        yield
    finally:
        _check(libc.capset(header, held))


def _check(result: int) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), "capabilities of this thread cannot be changed")

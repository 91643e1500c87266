"""CRC-32 of committed bytes: verified by readers, and cached per process.

Commit records and merge records hold one running CRC-32 of the committed bytes of each file (a ``.dat`` from its first
row on). A reader compares a file when it first touches it, and remembers (inode, length, CRC): a file that has grown
costs its new bytes only, an older epoch its own, shorter prefix once more. The compiled core computes it fifteen times
as fast as zlib.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import pyarrow as pa

from sparkhaven.store.errors import CorruptFileError, SettingsError
from sparkhaven.store.io.fs import Fs, Stat
from sparkhaven.store.native.checked_columns import checksum, crc32
from sparkhaven.store.types.committed_columns import UNKNOWN, FileState

ChecksumVerify = Literal["open", "read", "scrub", "off"]
MODES: tuple[str, ...] = get_args(ChecksumVerify)
ENVIRONMENT = "SPARKHAVEN_CHECKSUM_VERIFY"
KEPT_FILES = 1 << 16  # files remembered, 300 bytes each
KEPT_FROM = 1 << 14  # bytes; a smaller file is compared each time, which costs less than looking it up
KEPT_LENGTHS = 4  # of one file: epochs that are read in turn


def file_state(fs: Fs, path: Path) -> FileState:
    stat = fs.stat(path)
    size = stat.size if stat is not None else 0
    return FileState(size, checksum(fs, path, 0, size))


@dataclass(slots=True)
class _Known:
    """What is remembered of one inode: when and at which size it was looked at, and length -> CRC of its prefixes."""

    ctime_ns: int
    size: int
    prefixes: dict[int, int]

    def still(self, stat: Stat) -> bool:
        """Whether nothing but appends can have happened since."""
        return stat.ctime_ns == self.ctime_ns or stat.size > self.size


class Checks:
    """A cache of verified committed bytes. ``MEMORY`` is that of the process.

    ``kept`` files of ``smallest`` bytes and more are remembered; 0: each is compared whenever it is opened.
    """

    def __init__(self, kept: int = KEPT_FILES, smallest: int = KEPT_FROM) -> None:
        self._kept, self._smallest = kept, smallest
        self._known: OrderedDict[tuple[int, int], _Known] = OrderedDict()  # by device and inode

    def __reduce__(self) -> str | tuple[Any, ...]:
        """In another process: that process's memory, or an empty cache of the same kind."""
        return "MEMORY" if self is MEMORY else (Checks, (self._kept, self._smallest))

    @property
    def remembers(self) -> bool:
        """Whether a file that has not changed is compared once only."""
        return self._kept > 0

    def require(self, fs: Fs, path: Path, data: pa.Buffer, crc: int) -> None:
        """CorruptFileError if ``data``, the committed bytes of a file, are not those whose CRC-32 is ``crc``.

        Of ``UNKNOWN`` nothing is compared.
        """
        if crc == UNKNOWN:
            return
        stat = fs.stat(path) if self._kept and data.size >= self._smallest else None
        before = None if stat is None else self._known.get((stat.device, stat.inode))
        known = before.prefixes if before is not None and stat is not None and before.still(stat) else {}
        if known.get(data.size) != crc:
            base = max((length for length in known if length <= data.size), default=0)
            computed = crc32(data.slice(base), known.get(base, 0))
            if computed != crc and base:  # a rollback may have put other bytes behind the shorter prefix
                computed = crc32(data)
            if computed != crc:
                raise changed(path, FileState(data.size, crc), computed)
        if stat is not None:
            others = [(length, other) for length, other in known.items() if length != data.size]
            prefixes = dict([*others, (data.size, crc)][-KEPT_LENGTHS:])
            self._remember((stat.device, stat.inode), _Known(stat.ctime_ns, stat.size, prefixes))

    def _remember(self, key: tuple[int, int], known: _Known) -> None:
        self._known[key] = known
        self._known.move_to_end(key)
        while len(self._known) > self._kept:
            self._known.popitem(last=False)


MEMORY = Checks()


def chosen_mode(asked: str | None, environ: Mapping[str, str]) -> ChecksumVerify:
    """The mode that is asked for, else that of the environment, else ``read``; another word is a SettingsError."""
    mode, where = (asked, "checksum_verify") if asked is not None else (environ.get(ENVIRONMENT) or "read", ENVIRONMENT)
    if mode not in MODES:
        raise SettingsError("unknown mode of checksum_verify", where=where, expected=", ".join(MODES), found=repr(mode))
    return mode  # type: ignore[return-value]


def checks_of(mode: ChecksumVerify) -> Checks | None:
    """What a read compares with: everything again (``open``), the memory of the process (``read``), or nothing."""
    return {"open": Checks(kept=0), "read": MEMORY}.get(mode)


def changed(path: Path, state: FileState, computed: int) -> CorruptFileError:
    return CorruptFileError(
        "checksum does not match. Committed bytes have changed",
        where=path,
        expected=f"CRC-32 {state.crc:08x} over {state.size} bytes of data, as committed",
        found=f"CRC-32 {computed:08x}",
    )

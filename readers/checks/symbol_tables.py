"""Symbol tables that hold a text more than once. Ours never do; those of other writers may, until a merge."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pyarrow as pa

from sparkhaven.store.errors import CorruptFileError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.lazy_compute import pc
from sparkhaven.store.types.frozen import frozen

MOST_BYTES = 64 << 20


@frozen
class SymbolFile:
    """A ``.sym`` file with its committed bytes, and those of the ``.sym.bytes`` beside it."""

    path: Path
    ends_size: int
    texts_size: int


class SymbolTables:
    """Counts entries that repeat a text; remembers what it has counted, and forgets files that are no longer asked for.

    One call reads files until it has read ``most_bytes``: later calls read the others.
    """

    def __init__(self, fs: Fs, most_bytes: int = MOST_BYTES) -> None:
        self._fs, self._most = fs, most_bytes
        self._known: dict[SymbolFile, int] = {}

    def duplicates(self, files: Iterable[SymbolFile]) -> dict[tuple[str, ...], float]:
        """Repeated entries by column, over the files that are known by now. Raises the errors of reading."""
        read, repeated, known = 0, dict[tuple[str, ...], float](), dict[SymbolFile, int]()
        for file in files:
            if file not in self._known:
                if read >= self._most:
                    continue
                self._known[file] = self._count(file)
                read += file.ends_size + file.texts_size
            known[file] = self._known[file]
            column = (file.path.name.removesuffix(".sym"),)
            repeated[column] = repeated.get(column, 0) + known[file]
        self._known = known
        return repeated

    def _count(self, file: SymbolFile) -> int:
        if not file.ends_size:
            return 0
        ends = np.frombuffer(self._fs.read_range(file.path, 0, file.ends_size), "<i8")
        texts = self._fs.read_range(file.path.with_name(f"{file.path.name}.bytes"), 0, file.texts_size)
        offsets = pa.py_buffer(np.concatenate([[0], ends]).astype(np.int64))
        entries = pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(ends), [None, offsets, pa.py_buffer(texts)])
        try:
            entries.validate(full=True)
        except pa.ArrowInvalid as error:
            raise CorruptFileError(
                "ends of symbols lie outside their texts",
                where=file.path,
                expected=f"ascending ends up to {file.texts_size}",
                found=str(error),
                hint="run `sparkhaven verify --deep`",
            ) from error
        return len(entries) - int(pc.count_distinct(entries).as_py())

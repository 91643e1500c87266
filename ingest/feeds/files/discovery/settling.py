"""Whether a file that lies in a feed may still be written: then it is left until it rests.

A producer that renames its file when it is complete never comes here. Of one that does not, the end of the file tells
what is recognized: text without a line end after its last line, a Parquet file without its footer, an empty file. Such
a file is taken when it has not changed for ``settle_s``, by its modification time or as long as it was watched.
"""

from __future__ import annotations

from pathlib import Path

from sparkhaven.ingest.content.packing import MAGIC_BYTES, packing_of, packing_of_name
from sparkhaven.ingest.encodings import line_feed
from sparkhaven.ingest.feeds.files.options import FilesOptions
from sparkhaven.store.epochs.state.log_values import FileId
from sparkhaven.store.errors import CorruptFileError
from sparkhaven.store.io.fs import Fs

_FOOTERS = (b"PAR1", b"PARE")


class Settling:
    """Watches files of one feed that end as no complete file does."""

    def __init__(self, fs: Fs, feed: FilesOptions) -> None:
        self._fs, self._feed = fs, feed
        self._watched: dict[str, tuple[FileId, float, float]] = {}  # as it was last seen, since when, first seen

    def rests(self, file: FileId, now_s: float) -> bool:
        """Whether the file may be taken; it is watched from the first time that it may not."""
        settle = self._feed.settle_s
        if not settle or now_s - file.mtime_ns / 1e9 >= settle or self._ends(file):
            self._watched.pop(file.path, None)
            return True
        watched, since, first = self._watched.get(file.path, (file, now_s, now_s))
        if watched == file and now_s - since >= settle:
            del self._watched[file.path]
            return True
        self._watched[file.path] = (file, since if watched == file else now_s, first)
        return False

    def overdue(self, file: FileId, now_s: float) -> bool:
        """Whether a file that may not be taken yet was watched longer than it would have to rest."""
        return file.path in self._watched and now_s - self._watched[file.path][2] >= self._feed.settle_s

    def forget(self, path: str) -> None:
        self._watched.pop(path, None)

    def _ends(self, file: FileId) -> bool:
        """Whether the file ends as a complete one does. A packed one does not tell."""
        if not file.size:
            return False
        if packing_of_name(file.path) is not None:
            return True
        try:
            if self._feed.format == "parquet":
                return self._bytes(file, -4) in _FOOTERS
            head = self._bytes(file, MAGIC_BYTES)
            if packing_of(head) is not None:
                return True
            end = line_feed(self._feed.encoding, head)
            return file.size % len(end) == 0 and self._bytes(file, -len(end)) == end
        except (OSError, CorruptFileError):
            return False  # it changes just now, or whoever reads it says what is wrong

    def _bytes(self, file: FileId, count: int) -> bytes:
        """The first bytes of a file, or the last ones (negative)."""
        length = min(abs(count), file.size)
        return self._fs.read_range(Path(file.path), file.size - length if count < 0 else 0, length)

"""What the manifest of an extended tree says of the files that are there, and sums of those that shall be."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from sparkhaven.store.errors import CorruptFileError
from sparkhaven.store.format.parquet.manifest import TreeLeaf, decode_manifest
from sparkhaven.store.format.parquet.trees import MANIFEST, TreeLayout
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.merges.history import RowContent
from sparkhaven.store.scan.checksums import checksum, file_state
from sparkhaven.store.types.committed_columns import FileState


@dataclass(frozen=True, slots=True)
class KnownTree:
    """``leaves`` by date; ``files``: size and CRC-32 of the files of each leaf, by its path, then by theirs.

    Below "" are the files that name the leaves. ``written_ns``: when the manifest was written, after all of them.
    """

    leaves: Mapping[str, TreeLeaf] = field(default_factory=dict)
    files: Mapping[str, Mapping[str, FileState]] = field(default_factory=dict)
    written_ns: int = 0

    def has(self, fs: Fs, root: Path, leaf: str) -> bool:
        """Whether the files of a leaf, or those that name the leaves, are there with their sizes.

        A file that was written to after the manifest is read: it must have its checksum too.
        """
        for name, state in self.files.get(leaf, {}).items():
            stat = fs.stat(root / name)
            if stat is None or stat.is_dir or stat.size != state.size:
                return False
            if stat.mtime_ns > self.written_ns and checksum(fs, root / name, 0, state.size) != state.crc:
                return False
        return not leaf or leaf in self.files

    def in_step(self, value: str, path: str, columns: set[str], history: RowContent) -> TreeLeaf | None:
        """The leaf of a date if it has these columns of these rows."""
        leaf = self.leaves.get(value)
        if leaf is None or (leaf.path, set(leaf.digests)) != (path, columns):
            return None
        return leaf if RowContent(leaf.rows, leaf.history) == history else None


def known_tree(fs: Fs, root: Path, table: str, kind: TreeLayout, on_progress: Callable[[str], None]) -> KnownTree:
    """The tree below ``root``; nothing where it is new, or its manifest no witness of it: it is written anew then."""
    path = root / MANIFEST
    stat = fs.stat(path)
    if stat is None:
        return KnownTree()
    try:
        manifest = decode_manifest(fs.read(path), path)
    except CorruptFileError as error:
        on_progress(f"{error.what}: the tree is written anew")
        return KnownTree()
    if not manifest.sums or (manifest.table, manifest.layout) != (table, kind):
        why = "is that of another tree" if manifest.sums else "has no checksums, by an earlier release"
        on_progress(f"the manifest {why}: the tree is written anew")
        return KnownTree()
    paths = {leaf.path for leaf in manifest.files}
    files: dict[str, dict[str, FileState]] = {}
    for name, state in manifest.sums.items():
        leaf = next((path_ for path_ in (name, name.rpartition("/")[0]) if path_ in paths), "")
        files.setdefault(leaf, {})[name] = state
    return KnownTree({leaf.value: leaf for leaf in manifest.files}, files, stat.mtime_ns)


def sums_of(fs: Fs, root: Path, files: Iterable[Path]) -> dict[str, FileState]:
    """Size and CRC-32 of files that were written below ``root``, read back, by their path below it."""
    return {path.relative_to(root).as_posix(): file_state(fs, path) for path in files}

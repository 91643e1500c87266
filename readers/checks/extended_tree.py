"""Read-only checks of the tree beside history that ``ExtendedStorage`` of a schema asks for.

Its manifest has the rows of each leaf and the digest of them that merge records have too, and size and CRC-32 of every
file. Readers here never open the tree: a finding is an error where other programs would read something else than
history holds, or nothing. A merge may bring the tree in step meanwhile: what changes during the check is checked again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from sparkhaven.readers.checks.committed import CommittedFile, check_file, deep_crc
from sparkhaven.readers.checks.findings import Finding, finding, from_error, weaker
from sparkhaven.store import next_steps
from sparkhaven.store.errors import SparkhavenError
from sparkhaven.store.format.parquet.trees import (
    EXTENDED,
    MANIFEST,
    SUFFIX,
    TreeManifest,
    decode_manifest,
    staged,
    tree_columns,
)
from sparkhaven.store.io.fs import Fs, files_below
from sparkhaven.store.layout import TableName
from sparkhaven.store.merges.history import RowContent, row_content
from sparkhaven.store.merges.merge_records import MergeRecord
from sparkhaven.store.places import TablePlace
from sparkhaven.store.types.committed_columns import FileState
from sparkhaven.store.types.model import TableSchema

ATTEMPTS = 3  # while a merge goes on writing the tree


def check_extended(
    place: TablePlace, schema: TableSchema, records: Mapping[str, MergeRecord], *, deep: bool
) -> Iterator[Finding]:
    """Findings of the tree of a table. ``records``: the newest complete merge record of each date."""
    root = place.extended
    if schema.extended not in EXTENDED:
        if place.fs.names(root):
            yield finding("N321", root)
        return
    check = _Check(place.fs, schema, root, records, deep=deep)
    findings: list[Finding] = []
    for _ in range(ATTEMPTS):
        before = check.state()
        findings = list(check.run())
        if check.state() == before:
            break
    busy = place.fs.stat(staged(root)) is not None
    for defect in findings:
        if busy and defect.severity == "error":
            yield weaker(defect, "W326", again=check.again)
        else:
            yield defect


class _Check:
    def __init__(
        self, fs: Fs, schema: TableSchema, root: Path, records: Mapping[str, MergeRecord], *, deep: bool
    ) -> None:
        self.fs, self.root, self.records, self.deep = fs, root, records, deep
        self.table, self.kind = TableName(schema.namespace, schema.name), EXTENDED[schema.extended or ""]
        self.columns = tree_columns(schema)
        table = self.table
        self.again = next_steps.tree_again(table, records)
        self.mend = f"remove the file, then {self.again}"

    def state(self) -> tuple[object, ...]:
        """Changes with each manifest, and where a merge begins or ends."""
        stat = self.fs.stat(self.root / MANIFEST)
        return stat and (stat.inode, stat.size, stat.mtime_ns), self.fs.stat(staged(self.root)) is None

    def run(self) -> Iterator[Finding]:
        due = {value: row_content(record) for value, record in self.records.items()}
        due = {value: content for value, content in due.items() if content.rows}
        if not self.fs.names(self.root):
            if due:
                expected = f"a layout {self.kind} of {len(due)} dates"
                yield finding("W322", self.root, expected=expected, found="nothing", again=self.again)
            return
        manifest, failed = self._manifest()
        if manifest is None:
            if failed is not None:
                yield failed
            return
        files = manifest.files
        for path, state in sorted(files.items()):
            file = CommittedFile(self.root / path, state, whole=True)
            for defect in check_file(self.fs, file, deep_crc(self.deep), hint=self.mend):
                yield replace(defect, hint=self.again) if defect.found == "nothing" else defect
        yield from self._strays(files)
        yield from self._dates(manifest, due)

    def _manifest(self) -> tuple[TreeManifest | None, Finding | None]:
        path = self.root / MANIFEST
        try:
            if self.fs.stat(path) is None:
                return None, finding("E323", path, expected=MANIFEST, found="nothing", again=self.again)
            manifest = decode_manifest(self.fs.read(path), path)
        except (SparkhavenError, OSError) as error:
            return None, from_error(error, path, hint=self.mend)
        wanted, there = (str(self.table), self.kind), (manifest.table, manifest.layout)
        if there == wanted:
            return manifest, None
        what = "the manifest is that of another tree"
        expected, other = (f"table {name}, layout {kind}" for name, kind in (wanted, there))
        return None, finding("E323", path, what, expected=expected, found=other, hint=self.mend)

    def _strays(self, sums: Mapping[str, FileState]) -> Iterator[Finding]:
        for path in files_below(self.fs, self.root):
            name = str(path.relative_to(self.root))
            if name in sums or name == MANIFEST:
                continue
            code, what = ("E324", None) if name.endswith(SUFFIX) else ("W207", "no manifest names this file")
            wanted, hint = f"the {len(sums)} files of {MANIFEST}", "move it out of the tree"
            yield finding(code, path, what, expected=wanted, found="one more", hint=hint)

    def _dates(self, manifest: TreeManifest, due: Mapping[str, RowContent]) -> Iterator[Finding]:
        leaves = {leaf.value: leaf for leaf in manifest.leaves}
        same = frozenset(manifest.columns) == self.columns
        now = ", ".join(sorted(column.name for column in self.columns))
        for value in sorted(leaves.keys() | due.keys()):
            history, leaf = due.get(value), leaves.get(value)
            as_history = leaf is not None and RowContent(leaf.rows, leaf.history) == history
            if as_history and same:
                continue
            rows = history.rows if history is not None else 0
            there = "no leaf" if leaf is None else f"{leaf.rows} rows" + (", other values" if leaf.rows == rows else "")
            there = f"other columns than {now} of now" if as_history else there
            path = self.root / MANIFEST if leaf is None else self.root / leaf.path
            yield finding("W325", path, expected=f"{rows} rows", found=there, date=value, again=self.again)


class TreeUse(NamedTuple):
    """Files of a tree, their bytes, and the bytes of those that its manifest does not name.

    ``unlisted``: leaves that were counted by the manifest, without looking at their files.
    """

    files: int
    bytes: int
    waste: int
    unlisted: int = 0


def extended_use(place: TablePlace, *, most: int | None = None) -> TreeUse | None:
    """The disk use of the tree of a table; None without one.

    What a merge is writing beside the tree counts as waste, and so does all without a manifest that can be read.
    ``most``: a tree of more leaves, whose manifest has the sizes of its files, is counted by these alone.
    """
    root = place.extended
    path = root / MANIFEST
    manifest, data = None, b""
    with suppress(SparkhavenError, OSError):  # `verify` says what is wrong with it
        data = place.fs.read(path)
        manifest = decode_manifest(data, path)
    files = manifest.files if manifest is not None else {}
    if manifest is not None and most is not None and len(manifest.leaves) > most:
        size = sum(state.size for state in files.values())
        return TreeUse(len(files) + 1, size + len(data), 0, len(manifest.leaves))
    below = [
        file for top in (root, staged(root)) if place.fs.stat(top) is not None for file in files_below(place.fs, top)
    ]
    if not below:
        return None
    kept = {path, *(root / name for name in files)} if manifest is not None else set()
    sizes = {file: stat.size for file in below if (stat := place.fs.stat(file)) is not None}
    return TreeUse(len(sizes), sum(sizes.values()), sum(size for file, size in sizes.items() if file not in kept))

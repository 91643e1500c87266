"""Keeps the tree of an extended layout in step with history: what ``ExtendedStorage`` of a schema asks for.

History itself is nested, with merge records as its truth; the tree below ``Extended/<Table>`` has the same rows, one
leaf a date. A leaf is in step where the manifest of the tree has the rows and the digest of the date's merge record,
and the columns of the table, each under its name and number. So a renamed column has all leaves written anew.

1. *stage*: leaves of dates that are not in step, in a locked directory beside the tree; read back, synced;
2. *publish*: each leaf is renamed into place. In ``kv`` and ``flat`` trees it has the name of the one that it replaces,
   so each date changes at once. In ``metadata`` and ``hive`` trees it has a name of its own, and counts from the next
   step on;
3. *describe*: ``_common_metadata``, then ``_metadata``, are replaced; a Locations table is renamed aside, then the new
   one to its place;
4. *record*: the manifest is replaced, with size and CRC-32 of every file, for ``verify``. Killed before it, the next
   merge does all of this again;
5. *clean*: leaves that the manifest no longer names are removed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path

from sparkhaven.readers.arrow.opening import open_table
from sparkhaven.readers.arrow.pinned_table import PinnedTable
from sparkhaven.readers.arrow.snapshot import pinned_of
from sparkhaven.store.errors import CorruptFileError, SparkhavenError, ValidationFailedError, as_ours, counted
from sparkhaven.store.format.parquet.trees import (
    COMMON_METADATA,
    EXTENDED,
    LOCATIONS_TABLE,
    MANIFEST,
    METADATA,
    SUFFIX,
    ExportedColumn,
    TreeLayout,
    TreeLeaf,
    TreeManifest,
    decode_manifest,
    encode_manifest,
    exported,
    part_name,
    value_directory,
)
from sparkhaven.store.format.parquet.trees import staged as stage_of
from sparkhaven.store.framing import dump
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.merges.history import RowContent, outputs_of_now, row_content, totals
from sparkhaven.store.merges.merge_records import MergeRecord
from sparkhaven.store.native.checked_columns import checksum
from sparkhaven.store.places import TablePlace
from sparkhaven.store.schema.deployed.deploy import load_deployed
from sparkhaven.store.types.committed_columns import FileState
from sparkhaven.store.types.datatypes import CHAR_NULL
from sparkhaven.writers.transfer.copying import clear
from sparkhaven.writers.transfer.export import staged_tree
from sparkhaven.writers.transfer.export_plan import ExportOptions, ExportPlan, LeafFormat, plan_export
from sparkhaven.writers.transfer.tree_writer import TreeWriter, WrittenLeaf, check_leaf


@dataclass(frozen=True, slots=True)
class Followed:
    path: Path
    written: tuple[str, ...]
    removed: tuple[str, ...]


# --- what the tree has


@dataclass(frozen=True, slots=True)
class KnownTree:
    """What the manifest says of the files that are there: ``leaves`` by date, ``named`` the files that name them.

    ``columns`` of all leaves. ``written_ns``: when it was written, after all of them.
    """

    columns: frozenset[ExportedColumn] = frozenset()
    leaves: Mapping[str, TreeLeaf] = field(default_factory=dict)
    named: Mapping[str, FileState] = field(default_factory=dict)
    written_ns: int = 0

    def has(self, fs: Fs, root: Path, files: Mapping[str, FileState]) -> bool:
        """Whether files of the tree are there with their sizes.

        A file that was written to after the manifest is read: it must have its checksum too.
        """
        for name, state in files.items():
            stat = fs.stat(root / name)
            if stat is None or stat.is_dir or stat.size != state.size:
                return False
            if stat.mtime_ns > self.written_ns and checksum(fs, root / name, 0, state.size) != state.crc:
                return False
        return True

    def in_step(
        self, value: str, path: str, columns: frozenset[ExportedColumn], history: RowContent
    ) -> TreeLeaf | None:
        """The leaf of a date if it has these columns of these rows."""
        leaf = self.leaves.get(value)
        if leaf is None or leaf.path != path or self.columns != columns:
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
    if (manifest.table, manifest.layout) != (table, kind):
        on_progress("the manifest is that of another tree: the tree is written anew")
        return KnownTree()
    leaves = {leaf.value: leaf for leaf in manifest.leaves}
    return KnownTree(frozenset(manifest.columns), leaves, manifest.named, stat.mtime_ns)


# --- bringing it in step


def follow(place: TablePlace, on_progress: Callable[[str], None] = lambda _: None) -> None:
    """Writes the leaves of dates that are not in step with history, and says so; nothing without such a tree.

    Every change of history ends with it. It is called, too, where nothing was changed: a command that was killed may
    have changed history before. Raises what ``follow_history`` raises, as an error that says that history is committed.
    """
    schema = load_deployed(place)
    if schema.extended not in EXTENDED:
        return
    opened = pinned_of(open_table(place.layout.root, schema.full_name, null_char=CHAR_NULL, fs=place.fs))
    try:
        changes = follow_history(place, opened, now_ms=int(time.time() * 1000), on_progress=on_progress)
    except (SparkhavenError, OSError) as error:
        failed = as_ours(error)
        failed.what = f"history is committed, and its {schema.extended} tree is not in step: {failed.what}"
        raise failed from error
    done = f"{counted(len(changes.written), 'date')} written, {len(changes.removed):,} removed"
    on_progress(f"{schema.extended}: {done}, {changes.path}")


def follow_history(
    place: TablePlace, table: PinnedTable, *, now_ms: int, on_progress: Callable[[str], None] = lambda _: None
) -> Followed:
    """Brings the extended tree of a table in step with its history. ``now_ms``: the time in the Locations table.

    Raises what reading history and ``check_leaf`` raise; LockLostError: another process is at it.
    """
    place.fs.keep_dirs(place.extended, place.layout.root)
    with staged_tree(place.fs, place.extended):
        return _Follow(place, table, now_ms, on_progress).run()


class _Follow:
    def __init__(
        self,
        place: TablePlace,
        table: PinnedTable,
        now_ms: int,
        on_progress: Callable[[str], None],
    ) -> None:
        self.place, self.table = place, table
        self.root, self.stage = place.extended, stage_of(place.extended)
        self.kind: TreeLayout = EXTENDED[table.schema.extended or ""]
        self.named = self.kind in ("metadata", "hive")  # something names the leaves
        self.now_ms, self.on_progress = now_ms, on_progress
        columns = self.kind == "hive" and table.schema.extended_format != "Parquet"
        self.leaf: LeafFormat = "deephaven" if columns else "parquet"
        self.known = known_tree(place.fs, self.root, table.name, self.kind, on_progress)

    def run(self) -> Followed:
        fs, root = self.place.fs, self.root
        plan = self._vouched(
            plan_export(self.table, ExportOptions(self.kind, self.leaf, tier="history"), allow_empty=True)
        )
        if not plan.dates and not fs.names(root):  # no history yet
            return Followed(root, (), ())
        writer = TreeWriter(fs, self.table, self.stage, plan, self.now_ms, self.on_progress)
        leaves, stale = self._stage(plan, writer)
        gone = tuple(sorted(self.known.leaves.keys() - {leaf.value for leaf in leaves}))
        if not stale and not gone and self.known.has(fs, root, self.known.named):
            self._clean(leaves)  # what a killed one has left
            return Followed(root, (), ())
        with fs.during("extended-publish"):
            for leaf in stale:
                fs.mkdirs((root / leaf.path).parent)
                if fs.is_dir(root / leaf.path):
                    fs.remove_tree(root / leaf.path)
                fs.rename(self.stage / leaf.path, root / leaf.path)
            directories = {(root / leaf.path).parent for leaf in stale}
            fs.sync_dirs([*directories, root])
        with fs.during("extended-describe"):
            manifest = replace_names(fs, root, writer, leaves)
        with fs.during("extended-record"):
            fs.replace(root / MANIFEST, encode_manifest(manifest))
        with fs.during("extended-clean"):
            self._clean(leaves)
        return Followed(root, tuple(leaf.value for leaf in stale), gone)

    def _vouched(self, plan: ExportPlan) -> ExportPlan:
        """The plan without locations that nothing proves: the digests of a leaf are those of a merge record."""
        if not plan.unvouched:
            return plan
        left_out = f"{counted(len(plan.unvouched), 'location')} of history without merge record left out of the tree"
        self.on_progress(f"{left_out} until they are adopted")
        kept = ((value, tuple(s for s in slices if s.key not in plan.unvouched)) for value, slices in plan.dates)
        return replace(plan, dates=tuple((value, slices) for value, slices in kept if slices))

    def _stage(self, plan: ExportPlan, writer: TreeWriter) -> tuple[list[TreeLeaf], list[TreeLeaf]]:
        """The leaves that the tree shall have, and those of them that are new."""
        fs, leaves, written = self.place.fs, list[TreeLeaf](), list[tuple[TreeLeaf, WrittenLeaf, MergeRecord]]()
        records = {record.value: record for record in plan.records}
        columns = frozenset(exported(plan.columns))
        with fs.sync_guard(self.stage) as guard, fs.during("extended-stage"):
            for number, (value, _) in enumerate(plan.dates):
                history = row_content(records[value])
                path = self._path(plan, value, history, columns)
                same = self.known.in_step(value, path, columns, history)
                if same is not None and self.known.has(fs, self.root, same.files):
                    leaves.append(same)
                    continue
                leaf, content = writer.leaf(number, path)
                leaf = replace(leaf, history=history.digest)
                written.append((leaf, content, outputs_of_now(records[value], self.table.schema)))
                leaves.append(leaf)
            guard.sync(writer.files, {path.parent for path in writer.files})
            for leaf, content, record in written:
                check_leaf(fs, self.stage / leaf.path, plan.columns, content)
                _require_history(self.stage / leaf.path, leaf, record)
        return leaves, [leaf for leaf, _, _ in written]

    def _path(self, plan: ExportPlan, value: str, history: RowContent, columns: frozenset[ExportedColumn]) -> str:
        if self.kind == "flat":
            return part_name(value, 0) + SUFFIX
        names = sorted([column.name, column.type, column.id] for column in columns)
        content = {"rows": history.rows, "digest": history.digest, "columns": names}
        mark = sha256(dump(content)).hexdigest()[:12] if self.named else "history"
        suffix = SUFFIX if self.leaf == "parquet" else ""
        return f"{value_directory(plan.partitioning.name, value)}/{part_name(mark, 0)}{suffix}"

    def _clean(self, leaves: Sequence[TreeLeaf]) -> None:
        """Removes what the tree does not have in this layout: leaves, and directories of dates without one."""
        fs, root, named = self.place.fs, self.root, {leaf.path for leaf in leaves}
        own = {"metadata": {METADATA, COMMON_METADATA}, "hive": {LOCATIONS_TABLE}}.get(self.kind, set())
        for name in fs.names(root):
            if name[0] in "._":
                if name in {METADATA, COMMON_METADATA, LOCATIONS_TABLE} - own:
                    clear(fs, root / name)
                continue
            path = root / name
            if not fs.is_dir(path):
                if name not in named:
                    clear(fs, path)
                continue
            for inner in fs.names(path):
                if f"{name}/{inner}" not in named:
                    clear(fs, path / inner)
            fs.rmdir(path)


def _require_history(path: Path, leaf: TreeLeaf, record: MergeRecord) -> None:
    """ValidationFailedError: a leaf that was read back has other rows than the merge record of its date.

    Where their columns are not the same the columns are compared one by one: history has files of some that were
    dropped since, and a flat leaf has the partition value.
    """
    rows, digests = totals(record)
    differing = [name for name in sorted(leaf.digests.keys() & digests) if leaf.digests[name] != digests[name]]
    whole = all(output.digests.keys() == leaf.digests.keys() for output in record.outputs)
    if leaf.rows != rows or differing or (whole and leaf.row_digest != leaf.history):
        raise ValidationFailedError(
            "the leaf of a date has other rows than history",
            where=path,
            expected=f"{rows} rows, the digests of the merge record",
            found=f"{leaf.rows} rows, other digests in {', '.join(differing) or 'no column'}",
            hint="the tree is as it was. Run `sparkhaven verify --deep`, then the same command again",
            phase="check",
        )


def replace_names(fs: Fs, root: Path, writer: TreeWriter, leaves: Sequence[TreeLeaf]) -> TreeManifest:
    """Writes what names the leaves into the staging directory, and renames it into place; the manifest of the tree."""
    before, stage, kind = len(writer.files), writer.root, writer.plan.options.layout
    manifest = writer.manifest(leaves, root)
    fs.sync(writer.files[before:])
    if kind == "metadata":
        for name in (COMMON_METADATA, METADATA):
            fs.rename(stage / name, root / name)
    elif kind == "hive":
        fs.sync_dirs([stage / LOCATIONS_TABLE])
        old = stage / f"{LOCATIONS_TABLE}.old"
        if fs.stat(root / LOCATIONS_TABLE) is not None:
            fs.rename(root / LOCATIONS_TABLE, old)
        fs.rename(stage / LOCATIONS_TABLE, root / LOCATIONS_TABLE)
    fs.sync_dirs([root])
    return manifest

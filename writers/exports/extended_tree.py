"""Keeps the tree of an extended layout in step with history: what ``ExtendedStorage`` of a schema asks for.

History itself is nested, with merge records as its truth; the tree below ``Extended/<Table>`` has the same rows, one
leaf a date. A leaf is in step where the manifest of the tree has the rows and the digest of the date's merge record.

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

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

from sparkhaven.readers.arrow.pinned_table import PinnedTable
from sparkhaven.store.errors import SparkhavenError, ValidationFailedError
from sparkhaven.store.format.parquet.manifest import TreeLeaf, encode_manifest
from sparkhaven.store.format.parquet.trees import (
    COMMON_METADATA,
    EXTENDED,
    LOCATIONS_TABLE,
    MANIFEST,
    METADATA,
    SUFFIX,
    TreeLayout,
    part_name,
    value_directory,
)
from sparkhaven.store.framing.canonical import dump
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.merges.history import RowContent, in_columns, row_content, totals
from sparkhaven.store.merges.merge_records import MergeRecord
from sparkhaven.store.places import TablePlace
from sparkhaven.store.types.committed_columns import FileState
from sparkhaven.writers.exports.export_check import check_leaf
from sparkhaven.writers.exports.export_plan import ExportOptions, ExportPlan, LeafFormat, plan_export
from sparkhaven.writers.exports.export_target import ExportTarget, clear, locked
from sparkhaven.writers.exports.export_tree import TreeWriter
from sparkhaven.writers.exports.known_tree import known_tree, sums_of


@dataclass(frozen=True, slots=True)
class Followed:
    path: Path
    written: tuple[str, ...]
    removed: tuple[str, ...]


def follow_history(
    place: TablePlace, table: PinnedTable, *, now_ms: int, on_progress: Callable[[str], None] = lambda _: None
) -> Followed:
    """Brings the extended tree of a table in step with its history. ``now_ms``: the time in the Locations table.

    Raises what reading history and ``check_leaf`` raise; LockLostError: another process is at it.
    """
    fs, target = place.fs, ExportTarget(place.extended)
    kind = EXTENDED[table.schema.extended or ""]
    fs.keep_dirs(target.path, place.layout.root)
    with locked(fs, target):
        try:
            done = _Follow(place, table, target, kind, now_ms, on_progress).run()
        except (SparkhavenError, OSError):
            fs.remove_tree(target.stage)
            raise
        fs.remove_tree(target.stage)
    return done


class _Follow:
    def __init__(
        self,
        place: TablePlace,
        table: PinnedTable,
        target: ExportTarget,
        kind: TreeLayout,
        now_ms: int,
        on_progress: Callable[[str], None],
    ) -> None:
        self.place, self.table, self.target, self.kind = place, table, target, kind
        self.named = kind in ("metadata", "hive")  # something names the leaves
        self.now_ms, self.on_progress = now_ms, on_progress
        columns = kind == "hive" and table.schema.extended_format != "Parquet"
        self.leaf: LeafFormat = "deephaven" if columns else "parquet"
        self.known = known_tree(place.fs, target.path, table.name, kind, on_progress)

    def run(self) -> Followed:
        fs, root = self.place.fs, self.target.path
        plan = self._vouched(
            plan_export(self.table, ExportOptions(self.kind, self.leaf, tier="history"), allow_empty=True)
        )
        if not plan.dates and not fs.names(root):  # no history yet
            return Followed(root, (), ())
        writer = TreeWriter(fs, self.table, self.target, plan, self.now_ms, self.on_progress)
        leaves, stale, sums = self._stage(plan, writer)
        gone = tuple(sorted(self.known.leaves.keys() - {leaf.value for leaf in leaves}))
        if not stale and not gone and self.known.has(fs, root, ""):
            self._clean(leaves)  # what a killed one has left
            return Followed(root, (), ())
        with fs.during("extended-publish"):
            for leaf in stale:
                fs.mkdirs((root / leaf.path).parent)
                if fs.is_dir(root / leaf.path):
                    fs.remove_tree(root / leaf.path)
                fs.rename(self.target.stage / leaf.path, root / leaf.path)
            directories = {(root / leaf.path).parent for leaf in stale}
            fs.sync_dirs([*directories, root])
        with fs.during("extended-describe"):
            sums |= replace_description(fs, self.target, self.kind, writer, leaves)
        manifest = writer.manifest(leaves, sums)
        with fs.during("extended-record"):
            fs.replace(root / MANIFEST, encode_manifest(manifest))
        with fs.during("extended-clean"):
            self._clean(leaves)
        return Followed(root, tuple(leaf.value for leaf in stale), gone)

    def _vouched(self, plan: ExportPlan) -> ExportPlan:
        """The plan without locations that nothing proves: the digests of a leaf are those of a merge record."""
        if not plan.unvouched:
            return plan
        left_out = f"{len(plan.unvouched):,} locations of history have no merge record, and are not in the tree"
        self.on_progress(f"{left_out} until they are adopted")
        kept = ((value, tuple(s for s in slices if s.key not in plan.unvouched)) for value, slices in plan.dates)
        return replace(plan, dates=tuple((value, slices) for value, slices in kept if slices))

    def _stage(
        self, plan: ExportPlan, writer: TreeWriter
    ) -> tuple[list[TreeLeaf], list[TreeLeaf], dict[str, FileState]]:
        """The leaves that the tree shall have, those of them that are new, and the files of all."""
        fs, leaves, stale, sums = self.place.fs, list[TreeLeaf](), list[TreeLeaf](), dict[str, FileState]()
        records = {record.value: record for record in plan.records}
        columns = {column.name for column in plan.columns}
        with fs.sync_guard(self.target.stage) as guard, fs.during("extended-stage"):
            for number, (value, _) in enumerate(plan.dates):
                history = row_content(records[value])
                path = self._path(plan, value, history, columns)
                same = self.known.in_step(value, path, columns, history)
                if same is not None and self.known.has(fs, self.target.path, path):
                    leaves.append(same)
                    sums |= self.known.files[path]
                    continue
                leaf, written = writer.leaf(number, path)
                check_leaf(fs, self.target.stage / path, plan.columns, written)
                leaf = replace(leaf, history=history.digest)
                _require_history(self.target.stage / path, leaf, in_columns(records[value], self.table.schema))
                leaves.append(leaf)
                stale.append(leaf)
                sums |= sums_of(fs, self.target.stage, written.files)
            guard.sync(writer.files, {path.parent for path in writer.files})
        return leaves, stale, sums

    def _path(self, plan: ExportPlan, value: str, history: RowContent, columns: set[str]) -> str:
        if self.kind == "flat":
            return part_name(value, 0) + SUFFIX
        content = {"rows": history.rows, "digest": history.digest, "columns": sorted(columns)}
        mark = sha256(dump(content)).hexdigest()[:12] if self.named else "history"
        suffix = SUFFIX if self.leaf == "parquet" else ""
        return f"{value_directory(plan.partitioning.name, value)}/{part_name(mark, 0)}{suffix}"

    def _clean(self, leaves: Sequence[TreeLeaf]) -> None:
        """Removes what the tree does not have in this layout: leaves, and directories of dates without one."""
        fs, root, named = self.place.fs, self.target.path, {leaf.path for leaf in leaves}
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


def replace_description(
    fs: Fs, target: ExportTarget, kind: TreeLayout, writer: TreeWriter, leaves: Sequence[TreeLeaf]
) -> dict[str, FileState]:
    """Writes what names the leaves into the staging directory, and renames it into place; returns its files."""
    root, stage = target.path, target.stage
    before = len(writer.files)
    writer.describe(leaves, root)
    sums = sums_of(fs, stage, writer.files[before:])
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
    return sums

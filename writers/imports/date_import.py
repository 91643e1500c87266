"""Imports dates of a foreign tree into history, each by the steps of a merge whose only source is the tree.

1. *plan*: the dates of the tree, and what history has of them; a refusal ends the import before anything is written;
2. *convert*: the rows of a date, value by value as the columns of the table, into one ``table.parquet`` in the staging
   directory; their digests are kept;
3. *merge*: order, groups, partitions, format, sync and check as of any merge, with that file as source; the digests
   that were read back must be those of the conversion;
4. *publish*: the merge's own, from the stored ``check`` on resumed by the next import or merge of the date.

The record has an input of its own: no stream, internal partition ``import``, as many rows. So a later merge adds what
is intraday as a supplement, and merges the date again from history, never from intraday alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import field, replace
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from zlib import crc32

import pyarrow as pa

from sparkhaven.store.errors import SettingsError, SparkhavenError, TableExistsError, ValidationFailedError
from sparkhaven.store.format.parquet.fields import field_of
from sparkhaven.store.format.parquet.location_files import NAME
from sparkhaven.store.framing.canonical import dump
from sparkhaven.store.merges.history import DateHistory, load_history
from sparkhaven.store.merges.merge_records import MergeInput, MergeRecord, lock_table, merged_rows, store_records
from sparkhaven.store.merges.merge_run import ImportedTree
from sparkhaven.store.places import TablePlace
from sparkhaven.store.scan.checksums import checksum
from sparkhaven.store.schema.deployed.writable_schema import require_writable
from sparkhaven.store.types.committed_columns import FileState
from sparkhaven.store.types.frozen import frozen
from sparkhaven.store.types.model import Storage, TableSchema
from sparkhaven.store.volumes import require_filled
from sparkhaven.writers.exports.leaves import WrittenLeaf, write_parquet_leaf
from sparkhaven.writers.imports.column_leaf import open_leaf
from sparkhaven.writers.imports.foreign_values import STRICT, AllowedConversions
from sparkhaven.writers.imports.parquet_leaf import ExportedDigests
from sparkhaven.writers.imports.tree_leaves import FoundTree, Part, survey
from sparkhaven.writers.merge.executor import Executor, ProgressExecutor
from sparkhaven.writers.merge.plan.merge_pins import Pins
from sparkhaven.writers.merge.plan.merge_plan import MergeOptions, MergePlan
from sparkhaven.writers.merge.plan.merge_proof import as_hex
from sparkhaven.writers.merge.plan.output_plan import Taken, plan_output
from sparkhaven.writers.merge.publish.publish_phase import PublishPhase
from sparkhaven.writers.merge.publish.staged_locations import sweep
from sparkhaven.writers.merge.sources.merge_source import MergeSource
from sparkhaven.writers.merge.sources.parquet_source import text_bytes
from sparkhaven.writers.merge.write.phases import Failure, WholeDate, run_group, run_large
from sparkhaven.writers.partitions import writable_names

ORIGIN = "import"
CODEC = "LZ4_RAW"  # of what is read back at once


@frozen
class ImportOptions:
    """Settings of an import.

    ``dates``: values and ranges to import (None: all), or the one date of rows that have none. ``replace``: also
    dates that history has. ``merge``: memory, workers, order and format of the merge. ``conversions``: what may be
    rounded, and whether bytes are texts.
    """

    dates: tuple[str, ...] | None = None
    replace: bool = False
    merge: MergeOptions = field(default_factory=MergeOptions)
    conversions: AllowedConversions = STRICT


class ImportOutcome(StrEnum):
    """What an import does or did with a date; unchanged: it was imported before."""

    IMPORTED = "imported"
    REPLACED = "replaced"
    UNCHANGED = "unchanged"
    PLANNED = "planned"
    FAILED = "failed"


@frozen
class Imported:
    """The result of one date.

    ``intraday``: rows of the date that are intraday and not merged. ``clean_error``: published, but files of the merge
    could not be removed.
    """

    part: Part
    outcome: ImportOutcome
    generation: int = 0
    destinations: tuple[tuple[str, int], ...] = ()
    digests: dict[str, str] = field(default_factory=dict)
    intraday: int = 0
    seconds: float = 0.0
    error: SparkhavenError | OSError | None = None
    clean_error: SparkhavenError | OSError | None = None


def import_dates(
    place: TablePlace,
    schema: TableSchema,
    tree: FoundTree,
    options: ImportOptions,
    *,
    executor: Executor,
    clock: Callable[[], float],
    dry_run: bool = False,
    on_progress: Callable[[str], None] = lambda _: None,
) -> Iterator[Imported]:
    """Imports under the table's lock; yields one result per date. A failed date does not stop the others.

    Before anything is written: what ``survey`` raises; TableExistsError, history has one of the dates;
    RetryableStorageError, a volume to write to is not mounted; SchemaChangeError, the schema has changed meanwhile.
    """
    fs, layout = place.fs, place.layout
    parts = survey(fs, tree, schema, options.dates, options.conversions)
    require_filled(fs, layout, schema.namespace, writable_names(fs, layout, schema.namespace))
    dates = _Import(place, schema, tree, options, executor, clock, on_progress)
    if dry_run:
        yield from [dates.looked_at(part, load_history(place, part.value)) for part in parts]
        return
    with lock_table(place):
        require_writable(fs, layout, schema)  # from here on its columns keep their types
        histories = [dates.finish(load_history(place, part.value)) for part in parts]
        for part, history in zip(parts, histories, strict=True):
            dates.looked_at(part, history)
        for part, history in zip(parts, histories, strict=True):
            yield dates.run(part, history)


class _Import:
    def __init__(
        self,
        place: TablePlace,
        schema: TableSchema,
        tree: FoundTree,
        options: ImportOptions,
        executor: Executor,
        clock: Callable[[], float],
        on_progress: Callable[[str], None],
    ) -> None:
        self.place, self.schema = place, schema
        self.tree, self.options = tree, options
        self.executor, self.clock, self.on_progress = executor, clock, on_progress
        self.pins = Pins(place)
        self.publishing = PublishPhase(place, clock)
        self._sums: dict[Path, tuple[int, int]] = {}

    def finish(self, history: DateHistory) -> DateHistory:
        """Publishes a merge or import of the date that was killed after its check; the history after that."""
        resumed = self.publishing.resume(history, self.pins)
        if isinstance(resumed, Failure):
            raise resumed.error
        return resumed.history if resumed else history

    def looked_at(self, part: Part, history: DateHistory) -> Imported:
        """What would be done. TableExistsError: history has the date, SettingsError: intraday has rows of it too."""
        base = history.current
        later = self._later(part.value, base)
        if base is not None and not self.options.replace:
            if not self._same(part, base):
                raise TableExistsError(
                    "history has this date already",
                    where=f"{self.place.table} {part.value}, merge {base.generation}",
                    expected="no merge of it",
                    found=f"{sum(output.rows for output in base.outputs)} rows",
                    hint="--replace writes the tree in their place. --dates leaves the date out",
                )
            return Imported(part, ImportOutcome.UNCHANGED, base.generation, intraday=later)
        return Imported(part, ImportOutcome.PLANNED, intraday=later)

    def _later(self, value: str, base: MergeRecord | None) -> int:
        """Rows of the date that are intraday and not merged. SettingsError: merged ones are there as well."""
        merged, rows = merged_rows(base), 0
        for stream, location in self.pins.locations(value):
            merged_here = merged.get((stream, location.key.internal, location.since), 0)
            if merged_here and self.options.replace:
                raise SettingsError(
                    "history cannot be replaced while its rows are intraday as well",
                    where=f"{self.place.table} {value}, source {location.key.internal}",
                    expected="no merged rows in intraday",
                    found=f"{merged_here} rows",
                    hint=f"sparkhaven truncate {self.place.table} --dates {value}, then import again",
                )
            rows += location.rows - merged_here
        return rows

    def _same(self, part: Part, base: MergeRecord) -> bool:
        tree = base.run.imported
        return base.source == ORIGIN and tree is not None and tree.id == self._id(part)

    def _id(self, part: Part) -> str:
        """Of the content of the files, wherever they lie."""
        for leaf in part.leaves:
            if leaf.path not in self._sums:
                stat = self.place.fs.stat(leaf.path)
                size = stat.size if stat else 0
                self._sums[leaf.path] = size, self._sum(leaf.path)
        return sha256(dump({"files": [[leaf.name, *self._sums[leaf.path]] for leaf in part.leaves]})).hexdigest()[:24]

    def _sum(self, path: Path) -> int:
        stat = self.place.fs.stat(path)
        if stat is not None and stat.is_dir:
            return crc32(dump({name: self._sum(path / name) for name in self.place.fs.names(path)}))
        return checksum(self.place.fs, path, 0, stat.size if stat else 0)

    def run(self, part: Part, history: DateHistory) -> Imported:
        begun = self.clock()
        try:
            looked = self.looked_at(part, history)
            if looked.outcome is ImportOutcome.UNCHANGED:
                return replace(looked, seconds=self.clock() - begun)
            return replace(self._imported(part, history, begun), intraday=looked.intraday, seconds=self.clock() - begun)
        except (SparkhavenError, OSError) as error:
            return Imported(part, ImportOutcome.FAILED, seconds=self.clock() - begun, error=error)

    def _imported(self, part: Part, history: DateHistory, begun: float) -> Imported:
        fs, base = self.place.fs, history.current
        tree = ImportedTree(self._id(part), str(self.tree.root), self.tree.layout, part.rows)
        options = replace(self.options.merge, workers=max(self.options.merge.workers, self.executor.workers))
        options = replace(options, rewrite=self.options.replace)
        gone = tuple(replace(i, rows=0) for i in (base.inputs if base else ()) if i.stream)
        inputs = tuple(sorted((MergeInput("", ORIGIN, 0, -1, part.rows), *gone)))
        plan, record = plan_output(self.place, self.schema, history, options, Taken((), ORIGIN, inputs))
        record = replace(record, time_ms=int(begun * 1000), run=replace(record.run, imported=tree))
        try:
            with fs.during("merge-plan"):
                sweep(fs, record.run.staging)
                store_records(self.place, [record])
            with fs.during("import-convert"):
                source, written = self._convert(part, plan)
            record = self._merge(part, replace(plan, sources=(source,)), record, written)
            store_records(self.place, [record])
        except (SparkhavenError, OSError):
            sweep(fs, record.run.staging)
            raise
        (closed,) = self.publishing.close([history.after(record)])
        if isinstance(closed, Failure):
            raise closed.error
        outcome, proof = ImportOutcome.IMPORTED if base is None else ImportOutcome.REPLACED, record.proof
        outputs = tuple((output.internal, output.rows) for output in record.outputs)
        digests = proof.digests_out if proof else {}
        return Imported(part, outcome, record.generation, outputs, digests, clean_error=closed.clean_error)

    def _convert(self, part: Part, plan: MergePlan) -> tuple[MergeSource, WrittenLeaf]:
        fs, stored = self.place.fs, self.schema.stored
        directory = plan.work.with_name(".import")
        fs.mkdirs(directory)
        written = write_parquet_leaf(fs, directory / NAME, stored, self._batches(part), CODEC)
        if written.rows != part.rows:
            raise ValidationFailedError(
                "the tree has another number of rows than before",
                where=f"{self.tree.root}, {part.value}",
                expected=part.rows,
                found=written.rows,
                hint="import again when nobody writes the tree",
                phase="stage",
            )
        state = FileState(written.bytes, checksum(fs, directory / NAME, 0, written.bytes))
        source = MergeSource(directory, "", ORIGIN, 0, -1, 0, written.rows, written.rows, {NAME: state})
        self.on_progress(f"{part.value}: {written.rows:,} rows of {len(part.leaves)} files read")
        return replace(source, text_bytes=text_bytes(fs, source, stored)), written

    def _batches(self, part: Part) -> Iterator[pa.RecordBatch]:
        stored = self.schema.stored
        schema = pa.schema([field_of(column) for column in stored])
        for leaf in part.leaves:
            manifest = self.tree.manifest
            proven = ExportedDigests(leaf, manifest, stored) if manifest is not None else None
            for rows in open_leaf(self.place.fs, leaf, self.schema, part.value, self.options.conversions).read(
                part.value
            ):
                if proven is not None:
                    proven.add(rows)
                arrays = [
                    array.dictionary_encode() if column.storage is Storage.SYMBOL else array
                    for column, array in zip(stored, rows.columns, strict=True)
                ]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)
            if proven is not None:
                proven.require()

    def _merge(self, part: Part, plan: MergePlan, record: MergeRecord, written: WrittenLeaf) -> MergeRecord:
        task = WholeDate(plan, record, record.time_ms)
        if plan.large:
            reporting = ProgressExecutor(self.executor, part.value, self.clock, self.on_progress)
            checked = run_large(self.place, task, reporting.run)
        else:
            (checked,) = run_group(self.place.fs, [task])
        result = checked.result
        if isinstance(result, Failure):
            raise result.error
        expected = as_hex(written.digests, self.schema)
        if result.proof is None or result.proof.digests_out != expected:
            read_back = result.proof.digests_out if result.proof else {}
            raise ValidationFailedError(
                "the imported rows differ from those of the tree",
                where=f"{self.place.table} {part.value}",
                expected="equal digests",
                found=f"other digests in {', '.join(n for n in expected if read_back.get(n) != expected[n])}",
                hint="nothing was published. Import again",
                phase="check",
            )
        return result

"""Where the rows of a planned merge go: generation, destinations, order and format, and the record to begin with.

The distribution decides which writable partitions rows of a date may go to, if they have room.

``formula``: all of them, between which the key formula decides row by row. ``round-robin``: one for the whole date, in
turn. ``free-space``: one for the whole date, more often one whose volume has more free bytes. The merge record has the
choice. A later merge of the date keeps it, whatever partitions were added, while all of them are writable.
A date that a command has moved stays where it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.errors import MergeError, RetryableStorageError, SettingsError
from sparkhaven.store.expressions.formula.evaluation import Text
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.merges.history import DateHistory, in_columns
from sparkhaven.store.merges.merge_records import (
    ColumnCorrection,
    MergeInput,
    MergeRecord,
    all_values,
    merged_rows,
    newest,
)
from sparkhaven.store.merges.merge_run import ColumnDrop, LeftOut, MergePhase, MergeRun, RunSource
from sparkhaven.store.places import TablePlace
from sparkhaven.store.scan.selection import refuse_case_twins
from sparkhaven.store.types.model import DISTRIBUTIONS, Distribution, TableSchema
from sparkhaven.writers.merge.plan.merge_plan import MergeOptions, MergePlan, chosen_format
from sparkhaven.writers.merge.sources.merge_source import MergeSource
from sparkhaven.writers.merge.sources.sort_keys import SortKey
from sparkhaven.writers.partitions import (
    Volume,
    chosen_volume,
    destination,
    ensure_writable,
    partition_names,
    stage_root,
    volumes,
    writable_names,
)

_GOLDEN = 0x9E3779B97F4A7C15  # 2^64 / golden ratio: multiples of it fill the range evenly, however many there are


@dataclass(frozen=True, slots=True)
class PartitionChoice:
    """How the partitions were chosen, and their volumes in formula order.

    ``stays_in``: the only one, where a command has moved the date.
    """

    distribution: Distribution
    volumes: tuple[Volume, ...]
    stays_in: str | None = None


class Turns:
    """The turns of the dates of one run: a date's place among all merged dates and those of the run.

    Consecutive dates have consecutive turns. Tables begin at different ones.
    """

    def __init__(self, place: TablePlace, values: Sequence[str]) -> None:
        self._place, self._values = place, values
        self._turns: dict[str, int] | None = None

    def turn(self, value: str) -> int:
        """The turn of a date of the run, from 0."""
        if self._turns is None:
            first = abs(int(Text.of([str(self._place.table)]).hash_code()[0]))
            dates = sorted({*all_values(self._place), *self._values})
            self._turns = {date: first + number for number, date in enumerate(dates)}
        return self._turns[value]


def parse_distribution(word: str | None) -> Distribution | None:
    """The distribution that a command names; None: it names none. SettingsError."""
    known = next((known for known in DISTRIBUTIONS if known == word), None)
    if word is not None and known is None:
        raise SettingsError("unknown --distribution", expected=", ".join(DISTRIBUTIONS), found=repr(word))
    return known


def parse_names(text: str | None) -> tuple[str, ...]:
    """Names of partitions between commas; none without a text. SettingsError: a text without a name."""
    names = tuple(part.strip() for part in (text or "").split(",") if part.strip())
    if text is not None and not names:
        raise SettingsError(
            "partitions to write to are missing", where="--only-partitions", expected="like 0,1", found=repr(text)
        )
    return names


def choose_partitions(
    place: TablePlace,
    history: DateHistory,
    schema: TableSchema,
    options: MergeOptions,
    turns: Turns,
    needed: int,
) -> PartitionChoice:
    """The partitions for a merge of a date after its history; ``needed``: bytes of its rows.

    SettingsError: ``only`` names one that is not writable.
    """
    namespace, base = place.table.namespace, history.current
    if base is not None and base.outputs and (stays_in := base.run.stays_in) is not None:
        volume = chosen_volume(place.fs, place.layout, namespace, stays_in)
        return PartitionChoice(base.run.distribution, (volume,), stays_in)
    names = writable_names(place.fs, place.layout, namespace)
    if strange := sorted(set(options.only) - set(names)):
        raise SettingsError(
            "no such writable partition",
            where=f"--only-partitions {','.join(options.only)}",
            expected=f"some of {', '.join(names) or '(none)'}",
            found=", ".join(strange),
            hint=f"`sparkhaven partitions list {namespace}` shows which are writable",
        )
    names = [name for name in names if not options.only or name in options.only]
    recorded = _recorded(base, names, options)
    if base is not None and recorded:
        return PartitionChoice(base.run.distribution, tuple(volumes(place.fs, place.layout, namespace, recorded)))
    before = base.run.distribution if base is not None and base.run.destinations else None
    distribution = options.distribution or before or schema.distribution or "formula"
    writable = volumes(place.fs, place.layout, namespace, names)
    if distribution != "formula" and len(writable) > 1:
        turn = turns.turn(history.value)
        index = turn % len(writable) if distribution == "round-robin" else _by_space(place.fs, writable, turn, needed)
        writable = [writable[index]]
    return PartitionChoice(distribution, tuple(writable))


def _recorded(base: MergeRecord | None, names: Sequence[str], options: MergeOptions) -> tuple[str, ...]:
    """The partitions of the date's last merge, if this one must keep to them."""
    if base is None or not set(base.run.partitions) <= set(names):
        return ()
    other = options.distribution not in (None, base.run.distribution)
    return () if options.rewrite and (other or options.only) else base.run.partitions


def _by_space(fs: Fs, writable: Sequence[Volume], turn: int, needed: int) -> int:
    """Index of a partition. How often one is chosen is in proportion to the free bytes of its volume.

    Partitions of one volume share its free bytes. One without room for the date is left out, unless all are.
    """
    devices = [stat.device if (stat := fs.stat(volume.target)) is not None else -1 for volume in writable]
    free = [fs.free_bytes(volume.target) for volume in writable]
    sharing = Counter(devices)
    weights = [room // sharing[device] if room >= needed else 0 for room, device in zip(free, devices, strict=True)]
    if not any(weights):
        return free.index(max(free))
    point = (turn * _GOLDEN % (1 << 64)) * sum(weights) >> 64
    for index, weight in enumerate(weights):
        if point < weight:
            return index
        point -= weight
    raise AssertionError(weights)


def space_for(sources: Sequence[MergeSource], *, copies: int) -> int:
    """Bytes of the files of these sources, as often as a merge writes their rows."""
    return copies * sum(state.size for source in sources for state in source.files.values())


def coming_bytes(
    place: TablePlace, states: Sequence[StreamState], values: Iterable[str], *, rewrite: bool, copies: int
) -> int:
    """Bytes of the rows of these dates that are not merged, and with ``rewrite`` those of history too.

    ``copies``: how often a merge writes each row, once for column files and once for Parquet.
    """
    size = 0
    for value in values:
        record = newest(place, value)
        merged = merged_rows(record)
        for state in states:
            for location in state.locations.of_date(value):
                start = merged.get((state.stream, location.key.internal, location.since), 0)
                rows = location.rows - start
                if rows > 0 and not location.truncated:
                    size += sum(file.size for file in location.files.values()) * rows // location.rows
        if rewrite and record is not None:
            size += sum(file.size for output in record.outputs for file in output.files.values()) // copies
    return size * copies


def require_space(fs: Fs, namespace: str, chosen: Sequence[Volume], needed: int) -> None:
    """RetryableStorageError: a volume has not its share of the bytes free."""
    for volume in {volume.staging: volume for volume in chosen}.values():
        free = fs.free_bytes(volume.staging)
        if free * len(chosen) < needed:
            raise RetryableStorageError(
                "not enough space for the merged date",
                where=volume.staging,
                expected=f"{needed} bytes over {len(chosen)} partitions",
                found=f"{free} bytes free",
                hint=f"free space, or write to another volume: `sparkhaven partitions roll {namespace} --volume DIR`",
                phase="plan",
            )


@dataclass(frozen=True, slots=True)
class Taken:
    """What is read for a date: ``origin`` and ``inputs`` are what the record says of it.

    ``supplement``: it is added to what history has, else replaces it. ``drops``: columns that a command dropped.
    ``left_out``: rows that were withdrawn, or that a rule leaves out, of the sources or before of their history.
    ``corrections``: of columns, by command. ``replaces``: no row of it was merged before.
    """

    sources: tuple[MergeSource, ...]
    origin: str
    inputs: tuple[MergeInput, ...]
    supplement: bool = False
    drops: tuple[ColumnDrop, ...] = ()
    left_out: LeftOut = LeftOut()
    corrections: tuple[ColumnCorrection, ...] = ()
    replaces: bool = False


def plan_output(
    place: TablePlace,
    schema: TableSchema,
    history: DateHistory,
    options: MergeOptions,
    taken: Taken,
    turns: Turns | None = None,
    *,
    dry_run: bool = False,
) -> tuple[MergePlan, MergeRecord]:
    """Where the rows of a date go, and the record to begin with. ``turns``: those of several dates of one run.

    MergeError: history has the date without a record. RetryableStorageError: there is not enough space.
    """
    table, value, base = place.table, history.value, history.current
    options = replace(options, sort=_sort(base, options, schema), format=chosen_format(options, schema, base))
    if options.format != "deephaven":
        files = "merge with --format deephaven, which writes column files"
        refuse_case_twins(schema.full_name, schema.columns, "the reader that proves Parquet files", files)
    mark = "s" if taken.supplement else "g" if base is not None else ""
    generation = _generation(history)
    if not mark and _occupied(place, value):
        if not options.rewrite:
            raise MergeError(
                "history already has this date, without a merge record",
                where=f"{table} {value}",
                hint="merge with --rewrite, or import with --replace. A new generation retires what is there",
                phase="plan",
            )
        mark, generation = "g", max(generation, 2)
    needed = space_for(taken.sources, copies=1 if options.format == "deephaven" else 2)
    if not dry_run and (base is None or base.run.stays_in is None):
        ensure_writable(place.fs, place.layout, table.namespace)
    choice = choose_partitions(place, history, schema, options, turns or Turns(place, (value,)), needed)
    staging = choice.volumes
    require_space(place.fs, table.namespace, staging, needed)
    destinations = tuple(destination(volume, table, value, generation, mark) for volume in staging)
    work = stage_root(staging[0], table, value, generation) / ".work" if staging else Path()
    plan = MergePlan(table, value, generation, schema, taken.sources, destinations, options, work, taken.left_out)
    before = base.run if base is not None else MergeRun()
    record = MergeRecord(
        table=str(table),
        value=value,
        generation=generation,
        phase=MergePhase.PLAN,
        inputs=taken.inputs,
        outputs=(),
        source=taken.origin,
        schema_version=schema.version,
        replaces=() if taken.supplement else _replaced(place, value, base, mark),
        run=MergeRun(
            sort=tuple(str(key) for key in options.sort or ()),
            format=options.format,
            formula=schema.key_formula,
            partitions=tuple(destination.writable for destination in plan.destinations),
            supplements=base.run.supplements + 1 if base is not None and taken.supplement else 0,
            destinations=plan.destinations,
            work=plan.work,
            sources=tuple(RunSource(s.stream, s.internal, s.since, s.epoch, s.start, s.stop) for s in plan.sources),
            dedupe=options.dedupe,
            stays_in=choice.stays_in,
            detached=tuple(replace(p, replaced=True) for p in before.outside) if taken.replaces else before.detached,
            attached=() if taken.replaces else before.attached,
            distribution=choice.distribution,
        ),
        column_drops=taken.drops,
        corrections=taken.corrections,
    )
    return plan, record


def _sort(base: MergeRecord | None, options: MergeOptions, schema: TableSchema) -> tuple[SortKey, ...]:
    """The requested order, else that of the date's last merge."""
    if options.sort is not None or base is None:
        return options.sort or ()
    try:
        return tuple(SortKey.parse(text, schema) for text in in_columns(base, schema).run.sort)
    except SettingsError as error:
        raise SettingsError(
            "the date's last merge was sorted by a column that can no longer be used for sorting",
            where=f"{schema.full_name} {base.value}, merge {base.generation}",
            expected=error.expected,
            found=", ".join(base.run.sort),
            hint="state the order with --sort COLUMN, or --sort none",
        ) from None


def _generation(history: DateHistory) -> int:
    """The number of this merge: a new one, or that of a merge killed before it published."""
    last = history.last
    if last is None:
        return 1
    return last.generation + 1 if last.phase.reached(MergePhase.CHECK) else last.generation


def _occupied(place: TablePlace, value: str) -> bool:
    return bool(_without_record(place, value))


def _without_record(place: TablePlace, value: str) -> tuple[str, ...]:
    """The storage partitions, writable or not, that have the date under their own name."""
    names = partition_names(place.fs, place.layout, place.table.namespace)
    return tuple(name for name in names if place.fs.stat(place.history_location(LocationKey(name, value))))


def _replaced(place: TablePlace, value: str, base: MergeRecord | None, mark: str) -> tuple[str, ...]:
    if base is not None:
        return tuple(output.internal for output in base.outputs)
    return _without_record(place, value) if mark else ()

"""The writable partitions that rows of a date may go to, and whether they have room.

``formula``: all of them, between which the key formula decides row by row. ``round-robin``: one for the whole date, in
turn. ``free-space``: one for the whole date, more often one whose volume has more free bytes. The merge record has the
choice. A later merge of the date keeps it, whatever partitions were added, while all of them are writable.
A date that a command has moved stays where it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from sparkhaven.store.errors import RetryableStorageError, SettingsError
from sparkhaven.store.expressions.formula.javatext import Text
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.merges.merge_records import MergeRecord, all_values
from sparkhaven.store.places import TablePlace
from sparkhaven.store.types.model import DISTRIBUTIONS, Distribution, TableSchema
from sparkhaven.writers.merge.plan.merge_plan import MergeOptions
from sparkhaven.writers.merge.sources.merge_source import MergeSource
from sparkhaven.writers.partitions import Volume, chosen_volume, volumes, writable_names

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
    base: MergeRecord | None,
    schema: TableSchema,
    options: MergeOptions,
    turns: Turns,
    value: str,
    needed: int,
) -> PartitionChoice:
    """The partitions for a merge of a date after its merge ``base``; ``needed``: bytes of its rows.

    SettingsError: ``only`` names one that is not writable.
    """
    namespace = place.table.namespace
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
        turn = turns.turn(value)
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

"""Rows to tables, and rows of a table to locations: the internal partition and partition value that each belongs to.

Distinct values are named once. The internal partition is the value's text, percent-encoded where a path needs it.
The partition value is the local day or hour of an instant; an hour that the clocks repeat shares one directory. A
row whose key is null, cannot be a name, or lies too far from the clock is a bad row, and the order of rows within a
location is that of the file.

Of a feed of several tables the field that decides is decoded first, alone, then each row by the rules of its table. So
a row becomes what it would in a feed that has the rows of its table alone: no column of another table is looked at, and
a field may have another type in each. Rows that cannot be read as far as that field, and rows of no table, are rejected
by one table (``TableRoutes.refusing``).
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from sparkhaven.ingest.bad_rows import BadRow, Rejects, Unit, bad_row
from sparkhaven.ingest.spec import (
    BadRowBudget,
    PartitionSpec,
    StreamSpec,
    TableRoutes,
    Target,
    TextForm,
    ValueRule,
)
from sparkhaven.ingest.targets import near_name
from sparkhaven.ingest.values.arrow_columns import Mask
from sparkhaven.ingest.values.instants import ZoneTable, zone_table
from sparkhaven.ingest.values.typed_rows import Ints, Refusal, TypedRows
from sparkhaven.store.errors import ErrorBudgetExceeded, InvalidNameError, listed
from sparkhaven.store.instants import NS_PER_SECOND, UNIT_NS
from sparkhaven.store.layout import LocationKey, encode_internal
from sparkhaven.store.quarantine.rejected_rows import Reason
from sparkhaven.store.types.codings.string_set import MOST_SYMBOLS
from sparkhaven.store.types.datatypes import data_type
from sparkhaven.store.types.model import Column, Kind, Storage, TableSchema

_HOUR_S, _DAY_S = 3600, 86_400
_POSITION_NAMES: dict[str, Callable[[str], str]] = {
    "file": lambda path: Path(path).name,
    "topic": lambda source: source.rpartition("/")[0],
    "partition": lambda source: source.rpartition("/")[2],
}
UNROUTED = "unrouted"
"""Count of rows that no table takes, and that the stream file ignores."""
_ANY = BadRowBudget(max_rows=2**62, max_fraction=1.0)
_NO_TABLE = -1


@dataclass(frozen=True, slots=True)
class Routed:
    """Rows of one location in file order; the batch has the stored columns in definition order."""

    key: LocationKey
    batch: pa.RecordBatch


@dataclass(frozen=True, slots=True)
class _Keys:
    """One name for each code, one code for each row; -1 = the row has no key: why, and what stands there instead."""

    names: list[str]
    codes: Ints
    column: str | None = None
    refused: Mapping[int, tuple[Refusal, str]] = field(default_factory=dict)  # by row


@dataclass(frozen=True, slots=True)
class Router:
    """Routing of one split; ``file`` is its path or topic/partition. The bounds are measured from ``clock_ns``."""

    targets: Sequence[Target]
    partition: PartitionSpec
    file: str
    clock_ns: int
    unit: Unit = "line"
    few_texts: int = 256  # of a dictionary, which is not worth decoding

    def route(self, rows: TypedRows, payload: Callable[[int], bytes], rejects: Rejects) -> Iterator[Routed]:
        """The rows of a block by location, locations in the order in which they first appear.

        ``payload`` gives the text of a line by its number, for the rows that are rejected.
        """
        if not len(rows):
            return
        internal, value = self._internal(rows), self._value(rows)
        kept = np.arange(len(rows))
        bad = (internal.codes < 0) | (value.codes < 0)
        lacking = self._lacking(rows)
        if bad.any():
            bad_rows = self._rejected(rows, np.flatnonzero(bad), internal, value, payload)
            if self.partition.bounds == "fail":
                raise dates_refused(rejects.completed(next(bad_rows)), "bounds")
            rejects.add_all(bad_rows)
        if lacking:
            rejects.add_all(self._nulls(rows, {row: name for row, name in lacking.items() if not bad[row]}, payload))
            bad[list(lacking)] = True
        kept = np.flatnonzero(~bad) if bad.any() else kept
        stored = [index for index, target in enumerate(self.targets) if target.stored]
        names = [self.targets[index].column.name for index in stored]
        batch = pa.RecordBatch.from_arrays([rows.columns[index] for index in stored], names=names)
        codes = internal.codes[kept] * len(value.names) + value.codes[kept]
        if not len(codes):
            return
        if (codes == codes[0]).all():
            order, starts = kept, np.zeros(1, np.int64)
        else:
            short = len(internal.names) * len(value.names) <= 1 << 16  # as numpy sorts by counting
            ordered = np.argsort(codes.astype(np.uint16) if short else codes, kind="stable")
            order, codes = kept[ordered], codes[ordered]
            starts = np.concatenate([[0], np.flatnonzero(np.diff(codes)) + 1])
        if len(order) < len(rows) or len(starts) > 1:
            batch = batch.take(pa.array(order))
        stops = np.append(starts[1:], len(order))
        for group in np.argsort(order[starts], kind="stable").tolist():
            code = int(codes[starts[group]])
            key = LocationKey(internal.names[code // len(value.names)], value.names[code % len(value.names)])
            located = batch.slice(int(starts[group]), int(stops[group] - starts[group]))
            yield Routed(key, located if len(starts) == 1 else _own_texts(located, self.few_texts))

    def late(
        self, rows: TypedRows, payload: Callable[[int], bytes], keys: frozenset[LocationKey], rejects: Rejects
    ) -> int:
        """Rejects the rows of a block that belong to locations which take no more; returns how many they are."""
        if not len(rows):
            return 0
        late = self._going_to(rows, keys)
        bad_rows = (self._late(int(rows.numbers[row]), key, payload) for row, key in late)
        if late and self.partition.late == "fail":
            raise dates_refused(rejects.completed(next(bad_rows)), "late")
        rejects.add_all(bad_rows)
        return len(late)

    def without_room(
        self,
        rows: TypedRows,
        payload: Callable[[int], bytes],
        left: Mapping[LocationKey, Mapping[int, str]],
        passed: Counter[LocationKey],
        rejects: Rejects,
    ) -> int:
        """Rejects rows of a block by their numbers in their locations, of which ``passed`` were in blocks before."""
        if not len(rows):
            return 0
        bad_rows = []
        for row, key in self._going_to(rows, frozenset(left)):
            name = left[key].get(passed[key])
            passed[key] += 1
            if name is not None:
                index, number = _index_of(self.targets, name), int(rows.numbers[row])
                why = _no_room(self.targets[index].column, f"{key.internal}/{key.value}")
                shown = str(rows.columns[index][row].as_py())
                bad_rows.append(bad_row(self.file, number, name, why, shown, payload(number), unit=self.unit))
        rejects.add_all(bad_rows)
        return len(bad_rows)

    def _going_to(self, rows: TypedRows, keys: frozenset[LocationKey]) -> list[tuple[int, LocationKey]]:
        """The rows of a block that are good and belong to some locations."""
        internal, value, lacking = self._internal(rows), self._value(rows), self._lacking(rows)
        codes: dict[tuple[int, int], LocationKey] = {}
        for key in keys:
            if key.internal in internal.names and key.value in value.names:
                codes[internal.names.index(key.internal), value.names.index(key.value)] = key
        pairs = zip(internal.codes.tolist(), value.codes.tolist(), strict=True)
        return [(row, codes[pair]) for row, pair in enumerate(pairs) if pair in codes and row not in lacking]

    def _late(self, number: int, key: LocationKey, payload: Callable[[int], bytes]) -> BadRow:
        detail = f"{key.internal}/{key.value} was truncated"
        why, column = Refusal(Reason.LATE, "a date that is not in history yet", detail), self.partition.value.column
        return bad_row(self.file, number, column, why, key.value, payload(number), unit=self.unit)

    def _lacking(self, rows: TypedRows) -> dict[int, Target]:
        """Rows with a null in a column that cannot store it, or needs a value, and the first such column."""
        lacking: dict[int, Target] = {}
        for target, array in zip(self.targets, rows.columns, strict=True):
            coding = target.column.type.coding
            none = target.required or (coding is not None and not coding.has_null)
            if target.stored and none and array.null_count:
                for row in np.flatnonzero(np.asarray(array.is_null())).tolist():
                    lacking.setdefault(row, target)
        return dict(sorted(lacking.items()))

    def _nulls(
        self, rows: TypedRows, lacking: Mapping[int, Target], payload: Callable[[int], bytes]
    ) -> Iterator[BadRow]:
        for row, target in lacking.items():
            number, coding = int(rows.numbers[row]), target.column.type.coding
            text = payload(number)
            if target.required:
                why = Refusal(
                    Reason.REQUIRED, f"a value in field {target.source}{self._meant(target.column.name, text)}"
                )
            else:
                why = Refusal(Reason.NO_NULL, "" if coding is None else coding.domain)
            yield bad_row(self.file, number, target.column.name, why, "null", text, unit=self.unit)

    def _rejected(
        self, rows: TypedRows, bad: Ints, internal: _Keys, value: _Keys, payload: Callable[[int], bytes]
    ) -> Iterator[BadRow]:
        for row in bad.tolist():
            keys = internal if internal.codes[row] < 0 else value
            refusal, shown = keys.refused[row]
            number = int(rows.numbers[row])
            text = payload(number)
            if shown == "null":
                refusal = replace(refusal, expected=refusal.expected + self._meant(str(keys.column), text))
            yield bad_row(self.file, number, keys.column, refusal, shown, text, unit=self.unit)

    def _meant(self, column: str, payload: bytes) -> str:
        """The field of a row of JSON that may be meant by the column that it lacks."""
        target = self.targets[_index_of(self.targets, column)]
        try:
            row = json.loads(payload)
        except ValueError:
            return ""
        if target.meta is not None or not isinstance(row, dict) or target.source in row:
            return ""
        near = near_name(target.source, list(row))
        return "" if near is None else f". The row has no field {target.source}: did you mean {near}?"

    def _internal(self, rows: TypedRows) -> _Keys:
        rule = self.partition.internal
        if rule.kind != "column":
            name = rule.name if rule.kind == "fixed" else encode_internal(_POSITION_NAMES[rule.name](self.file))
            return _Keys([name], np.zeros(len(rows), np.int64))
        array = rows.columns[_index_of(self.targets, rule.name)]
        encoded = array.dictionary_encode()
        names: list[str] = []
        code_of: list[int] = []
        refused: dict[int, tuple[Refusal, str]] = {}
        for entry, value in enumerate(encoded.dictionary.to_pylist()):
            text = _name_text(value, array.type)
            try:
                names.append(encode_internal(text))
                code_of.append(len(names) - 1)
            except InvalidNameError as error:
                code_of.append(-1)
                refused[entry] = (Refusal(Reason.NO_INTERNAL_NAME, str(error.expected)), text)
        indices = encoded.indices.fill_null(len(code_of)).to_numpy(zero_copy_only=False)
        codes = np.array([*code_of, -1], np.int64)[indices]
        refused[len(code_of)] = (Refusal(Reason.NULL_INTERNAL, "a value"), "null")
        by_row = {row: refused[int(indices[row])] for row in np.flatnonzero(codes < 0).tolist()}
        return _Keys(names or [""], codes, rule.name, by_row)

    def _value(self, rows: TypedRows) -> _Keys:
        rule = self.partition.value
        if rule.column is None:
            return _Keys([str(rule.fixed)], np.zeros(len(rows), np.int64))
        array = rows.columns[_index_of(self.targets, rule.column)]
        instants, null = instants_of(array, rule)
        past, future = (round(s * NS_PER_SECOND) for s in (self.partition.max_past_s, self.partition.max_future_s))
        low, high = (min(max(b, -(2**63) + 1), 2**63 - 1) for b in (self.clock_ns - past, self.clock_ns + future))
        if not null.any() and low <= instants.min() and instants.max() <= high:
            return _Keys(*date_names(instants, rule), rule.column)
        outside = ((instants < low) | (instants > high)) & ~null
        bad = null | outside
        refused = dict.fromkeys(np.flatnonzero(null).tolist(), (Refusal(Reason.NULL_DATE, "an instant"), "null"))
        if outside.any():
            expected = f"an instant from {_iso(low)} to {_iso(high)} (max_past, max_future around the clock)"
            why = Refusal(Reason.OUT_OF_BOUNDS, expected)
            for row in np.flatnonzero(outside).tolist():
                refused[row] = (why, _iso(int(instants[row])))
        names, codes = date_names(instants[~bad], rule)
        whole = np.full(len(rows), -1, np.int64)
        whole[~bad] = codes
        return _Keys(names or [""], whole, rule.column, refused)


def dates_refused(row: BadRow, setting: str) -> ErrorBudgetExceeded:
    """The error of ``late = "fail"`` and ``bounds = "fail"``."""
    return ErrorBudgetExceeded(
        "a row has a date that the stream refuses",
        where=f"{row.file} {row.unit} {row.line}",
        expected=row.refusal.expected,
        found=f"{row.explanation}, {row.value}",
        hint=f'correct the row, or set partition.{setting} = "quarantine" to set such rows aside.'
        " Nothing of this batch was committed",
    )


def date_names(instants: Ints, rule: ValueRule) -> tuple[list[str], Ints]:
    """Distinct partition values of instants (ns), and for each instant which of them."""
    step, unit = (_HOUR_S, "h") if rule.format == "yyyy-MM-dd-HH" else (_DAY_S, "D")
    zone = zone_table(rule.zone)
    if len(instants) and zone.one_stretch(int(instants.min()), int(instants.max()), step):
        units, codes = _local_units(instants[:1], zone, step), np.zeros(len(instants), np.int64)
    else:
        units, codes = np.unique(_local_units(instants, zone, step), return_inverse=True)
    texts = units.astype(f"datetime64[{unit}]").astype(str).tolist()
    return [text.replace("T", "-") for text in texts], codes.astype(np.int64, copy=False)


def _local_units(instants: Ints, zone: ZoneTable, step: int) -> Ints:
    return (instants // NS_PER_SECOND + zone.offset_s(instants)) // step


def instants_of(array: pa.Array, rule: ValueRule) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """Nanoseconds of the column that gives the partition value, and where there are none.

    A count in ``rule.unit`` that is no Instant saturates, and so falls out of bounds.
    """
    null = array.is_null().to_numpy(zero_copy_only=False)
    plain = pc.fill_null(array.view(pa.int64()), 0).to_numpy(zero_copy_only=False)
    if rule.unit is None or rule.unit == "iso":
        return plain, null
    scale = UNIT_NS[rule.unit]
    limit = (2**63 - 1) // scale
    return np.clip(plain, -limit, limit) * scale, null


def newest_instant(rows: TypedRows, targets: Sequence[Target], rule: ValueRule) -> int | None:
    """The largest instant (ns) that gives a partition value, if any row has one."""
    if rule.column is None:
        return None
    instants, null = instants_of(rows.columns[_index_of(targets, rule.column)], rule)
    return int(instants[~null].max()) if not null.all() else None


def reference_ns(
    partition: PartitionSpec, targets: Sequence[Target], now_ns: int, rows: Callable[[], Iterable[TypedRows]]
) -> int:
    """What the bounds are measured from: a fixed time, ``now_ns``, or the newest instant of all ``rows``.

    ``rows`` is called for the clock "batch" only; if none of them has an instant, the result is ``now_ns``.
    """
    chosen, rule = partition.clock, partition.value
    if chosen.kind != "batch" or rule.column is None:
        return now_ns if chosen.at_ns is None else chosen.at_ns
    instants = (newest_instant(block, targets, rule) for block in rows())
    return max((instant for instant in instants if instant is not None), default=now_ns)


def _own_texts(batch: pa.RecordBatch, few: int) -> pa.RecordBatch:
    """The batch of one location of many, without dictionaries that have more texts than it has rows.

    Whoever writes it looks at each text of a dictionary.
    """
    most = max(len(batch), few)
    columns = [
        array.dictionary_decode() if pa.types.is_dictionary(array.type) and len(array.dictionary) > most else array
        for array in batch.columns
    ]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _no_room(column: Column, location: str) -> Refusal:
    if column.storage is Storage.SET:
        return Refusal(Reason.NO_ROOM_IN_SETS, f"at most {MOST_SYMBOLS} different texts in {location}")
    earlier = " or ".join(form.type.name for form in column.forms)
    return Refusal(Reason.NO_ROOM_IN_FORM, f"a value that {earlier} has: the files of {location} are from before")


def _index_of(targets: Sequence[Target], name: str) -> int:
    return next(index for index, target in enumerate(targets) if target.column.name == name)


def _name_text(value: object, kind: pa.DataType) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if kind == pa.uint16() and isinstance(value, int):
        return chr(value)
    return str(value)


def _iso(ns: int) -> str:
    return f"{np.datetime64(ns, 'ns')}Z"


@dataclass(frozen=True, slots=True)
class TableRows:
    """One table that a split is decoded for: its rules, and where its rejected rows go."""

    spec: StreamSpec
    schema: TableSchema
    rejects: Rejects


def routing_target(routes: TableRoutes) -> Target:
    """The field that decides, as a column of texts."""
    name = routes.column or routes.kind
    column = Column(name, data_type("String"), Kind.NORMAL, Storage.NONE, -1, "UTF_8")
    return Target(column, name, "iso", None, None, False, form=TextForm(as_text=True))


def counting(spec: StreamSpec, routes: TableRoutes) -> StreamSpec:
    """The spec as decoders of its rows take it: the field that decides is used, also where no column has it."""
    return replace(spec, ignore=(*spec.ignore, routes.column)) if routes.column else spec


class TableChoice:
    """Chooses the table of each row of a split; ``tables`` are those that it is decoded for, by number.

    ``probe`` takes what is rejected while the field that decides is decoded; ``numbers_of`` gives that to its table.
    """

    def __init__(self, routes: TableRoutes, tables: Mapping[int, TableRows], file: str, unit: Unit) -> None:
        self._routes, self._tables, self._file, self._unit = routes, tables, file, unit
        self._found: list[BadRow] = []
        self.probe = Rejects(_ANY, sink=self._found.extend)

    def numbers_of(self, rows: TypedRows, payload: Callable[[int], bytes]) -> dict[int, Ints]:
        """The numbers of the rows of each table, ascending; the one column of ``rows`` has the texts that decide.

        Rejects what the decoder of the column has rejected, and the rows of no table.
        """
        texts = rows.columns[0]
        chosen = _chosen(texts, self._routes)
        for number, table in self._tables.items():
            table.rejects.source.leave(int(np.count_nonzero((chosen != number) & (chosen != _NO_TABLE))))
        none = np.flatnonzero(chosen == _NO_TABLE).tolist()
        if self._routes.ignore:
            self.probe.others[UNROUTED] += len(none)
            self.probe.source.leave(len(none))
        else:
            why = unrouted(self._routes)
            self.probe.add_all(self._refused(int(rows.numbers[row]), why, texts[row].as_py(), payload) for row in none)
        self.settle()
        return {table: rows.numbers[chosen == table] for table in self._tables}

    def settle(self) -> None:
        """Gives one table all that the probe has."""
        self.probe.flush()
        refusing = self._tables.get(self._routes.refusing)
        for table in self._tables.values():
            table.rejects.source.leave(self.probe.source.left + (0 if table is refusing else len(self._found)))
        self.probe.source.left = 0
        if refusing is not None:
            own = refusing.rejects
            own.read += len(self._found)
            own.others.update({name: count for name, count in self.probe.others.items() if count})
            own.add_all(self._found)
        self._found.clear()
        self.probe.others.clear()

    def _refused(self, number: int, why: Refusal, text: str | None, payload: Callable[[int], bytes]) -> BadRow:
        shown = "null" if text is None else text
        column = self._routes.column or None  # None: the topic decides
        return bad_row(self._file, number, column, why, shown, payload(number), unit=self._unit)


def unrouted(routes: TableRoutes) -> Refusal:
    """Why a row of no table is rejected."""
    return Refusal(Reason.NO_TABLE, listed(list(routes.table_of)))


def of_other_tables(rows: TypedRows, routes: TableRoutes) -> dict[int, tuple[Refusal, str]]:
    """The rows, by number, that are not of the routes' own table: why, and the text that decides."""
    others: dict[int, tuple[Refusal, str]] = {}
    for number, text, table in zip(
        rows.numbers.tolist(), rows.columns[0].to_pylist(), _chosen(rows.columns[0], routes).tolist(), strict=True
    ):
        if table != routes.own:
            why = unrouted(routes)
            if table != _NO_TABLE:
                own, other = routes.names[routes.own], routes.names[table]
                why = Refusal(Reason.NO_TABLE, f"a row of {own}", f"{other} takes it")
            others[number] = why, "null" if text is None else text
    return others


def lines_of(every: Ints, numbers: Ints) -> Mask:
    """Which of ``every`` number, ascending, is among ``numbers``."""
    wanted = np.zeros(len(every), np.bool_)
    wanted[np.searchsorted(every, numbers)] = True
    return wanted


def _chosen(texts: pa.Array, routes: TableRoutes) -> Ints:
    """The number of the table of each row, -1 for none."""
    rest = _NO_TABLE if routes.rest is None else routes.rest
    table_of = routes.table_of
    coded = texts if pa.types.is_dictionary(texts.type) else texts.dictionary_encode()
    tables: Sequence[int] = [table_of.get(text, rest) for text in coded.dictionary.to_pylist()]
    codes = coded.indices.fill_null(len(tables)).to_numpy(zero_copy_only=False)
    numbers: Ints = np.array([*tables, rest], np.int64)[codes]
    return numbers

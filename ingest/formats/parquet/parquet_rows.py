"""Parquet files to typed rows, batch by batch.

A Parquet file declares its types, so a column of a type that can never fit is an error of the file. Values that
do not fit (too large, with a fraction, equal to the null value) are bad rows like any other, named by row number.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkhaven.ingest.bad_rows import (
    MAX_PAYLOAD,
    BadRow,
    Rejects,
    Unit,
    bad_row,
    exact_rows,
    guarded_rows,
)
from sparkhaven.ingest.content.raw_file import (
    NOTHING,
    KnownFile,
    PlannedFile,
    column_twice,
    no_parquet,
    planned_parquet,
)
from sparkhaven.ingest.formats.parquet.typed_values import (
    SourceColumn,
    check_type,
    exact_value,
    row_form,
    row_text,
    show,
    typed_values,
)
from sparkhaven.ingest.spec import Target
from sparkhaven.ingest.values.typed_rows import Ints, Refusal, TypedRows, Value, attempted, merge_rows, no_columns
from sparkhaven.store.conversions.number_arrays import plain
from sparkhaven.store.epochs.state.log_values import FileId
from sparkhaven.store.errors import FeedError
from sparkhaven.store.foreign_parquet import ForeignParquet, ParquetBatch
from sparkhaven.store.quarantine.rejected_rows import Reason

_NULL = pa.NULL  # `pa.scalar` would import pandas
_FLOATING = ("float", "double")
AGAIN = "deliver the file again under a new name. Nothing of it was committed"


class ParquetDecoder:
    """Decoder of Parquet files, and of any other batches with types of their own.

    ``known`` is of the file. ``bytes_too``: bytes may be texts in UTF-8. ``strict``: rows of a file with other columns
    are bad.
    """

    def __init__(
        self,
        targets: Sequence[Target],
        uncounted: Sequence[str],
        *,
        alias: bool = False,
        unit: Unit = "row",
        known: KnownFile = NOTHING,
        bytes_too: bool = False,
        strict: bool = False,
    ) -> None:
        self._targets, constants = tuple(targets), known.constants
        self._constants = {name: pa.scalar(value, pa.string()) for name, value in constants.texts.items()}
        self._typed_constants, self._zone_of = constants.typed, constants.zone_of
        others = {target.source for target in self._targets if not self._takes_typed(target)}
        self._written = self._constants | {n: value for n, value in self._typed_constants.items() if n not in others}
        self.known_file, self._bytes_too, self._strict = known, bytes_too, strict
        self._sources = dict.fromkeys(target.source for target in self._targets)
        self._known = self._sources.keys() | set(uncounted)
        self._alias, self._unit = alias, unit
        self._form = row_form(self._targets, bytes_too=bytes_too)

    def decode(
        self, planned: PlannedFile, rejects: Rejects, check: Callable[[Sequence[str]], None] = lambda names: None
    ) -> Iterator[TypedRows]:
        """Typed rows of a file in batches; FeedError if it is no Parquet file, damaged, or has a wanted column twice.

        ``check`` gets the names of all columns before the first row is read, and may refuse the file.
        """
        for _, rows in decode_together(planned, {0: (self, rejects, check)}):
            yield rows

    def require(self, file: ForeignParquet, path: str, check: Callable[[Sequence[str]], None]) -> set[str]:
        """The columns of a file that rows need; FeedError if one is there twice, or of a type that does not fit."""
        declared = file.declared
        check([*declared.names, *self._constants])
        wanted = {t.source for t in self._targets} & set(declared.names) - self._constants.keys()
        if twice := [name for name in file.twice if name in wanted]:
            raise column_twice(path, twice[0])
        for target in self._targets:
            if target.source in wanted:
                check_type(target, declared.field(target.source).type, path, bytes_too=self._bytes_too)
        return wanted

    def extras(self, names: Sequence[str]) -> list[str]:
        """Of the columns of a file and those beside them the ones that no column of the table takes."""
        return [name for name in dict.fromkeys([*names, *self._constants]) if name not in self._known]

    def absent(self, names: Sequence[str]) -> list[Target]:
        """The targets of which neither a file with these columns has a field, nor its table declares one."""
        absent = [target for target in self._targets if target.source not in {*names, *self._constants}]
        return [target for target in absent if target.source not in self.known_file.declared]

    def refused(self, extras: Sequence[str], absent: Sequence[Target]) -> tuple[Refusal, str] | None:
        """Why no row of a file is taken that has these columns too, and lacks those; and what is shown for it."""
        if not self._strict or not (extras or absent):
            return None
        expected = ", ".join(target.source for target in absent or self._targets)
        return Refusal(Reason.UNKNOWN_FIELD if extras else Reason.ABSENT_FIELD, expected), ", ".join(extras)

    def reject_all(
        self,
        batch: ParquetBatch,
        numbers: Ints,
        file: str,
        rejects: Rejects,
        others: Callable[[int], Mapping[str, pa.Scalar]],
        why: tuple[Refusal, str],
    ) -> TypedRows:
        """No rows: those of the batch are rejected."""
        rejects.read += len(numbers)
        for row, number in enumerate(numbers.tolist()):
            text = self._text({**batch.fields(row), **others(number)})
            rejects.add_all([bad_row(file, number, None, why[0], why[1], text, unit=self._unit)])
        return TypedRows(tuple(no_columns(self._targets)), numbers[:0])

    def path_of(self, split: FileId) -> str:
        """How the rows of a file are named."""
        return self.known_file.place or split.path

    def payload(self, planned: PlannedFile) -> Callable[[int], bytes]:
        """The whole of a row by its number, as text; numbers must not fall."""
        others = _Others(planned, None, [self])

        def text(number: int) -> bytes:
            return self._text(others.fields(number))

        return text

    def typed(
        self,
        batch: ParquetBatch,
        numbers: Ints,
        file: str,
        rejects: Rejects,
        others: Callable[[int], Mapping[str, pa.Scalar]] = lambda number: {},
    ) -> TypedRows:
        """The good rows of a batch; ``numbers`` are their positions in ``file``.

        ``others`` gives fields of a bad row that the batch lacks.
        """

        def refused(row: int, refusal: Refusal) -> BadRow:
            return bad_row(file, int(numbers[row]), None, refusal, "", self._unread(batch, row), unit=self._unit)

        def decode(start: int, stop: int) -> TypedRows:
            return self._typed(batch.slice(start, stop - start), numbers[start:stop], file, rejects, others)

        return guarded_rows(batch.rows.num_rows, decode, refused, rejects)

    def _text(self, fields: Mapping[str, pa.Scalar]) -> bytes:
        """The payload of a row: its fields, constants, and null for columns that its table declares without the file.

        So a payload has all that ``absent`` asks for, and requeue needs no table to tell what is absent.
        """
        whole = {**fields, **self._written}
        declared = (name for name in self._sources if name in self.known_file.declared)
        return row_text(whole | {name: _NULL for name in declared if name not in whole}, self._form)

    def _unread(self, batch: ParquetBatch, row: int) -> bytes:
        """The text of a row that raised an exception, as far as it has one."""
        text = attempted(self._text, batch.fields(row))
        return b"" if isinstance(text, Refusal) else text

    def _typed(
        self,
        batch: ParquetBatch,
        numbers: Ints,
        file: str,
        rejects: Rejects,
        others: Callable[[int], Mapping[str, pa.Scalar]],
    ) -> TypedRows:
        count = batch.rows.num_rows
        rejects.read += count
        doubt = np.zeros(count, np.bool_)
        columns: list[pa.Array] = []
        sources: list[SourceColumn | None] = []
        for target in self._targets:
            name, far, unsure = target.source, None, None
            if name in self._constants:
                column = pa.repeat(self._constant(target), count)
            elif name in batch.rows.schema.names:
                column, far, unsure = batch.rows.column(name), batch.far.get(name), batch.unsure.get(name)
            else:
                sources.append(None)
                columns.append(pa.nulls(count, target.column.type.arrow))
                continue
            values_of = SourceColumn(plain(column), far, name in batch.old, unsure)
            sources.append(values_of)
            array, odd = typed_values(values_of, target)
            columns.append(array)
            if odd is not None:
                doubt |= odd
        if not doubt.any():
            return TypedRows(tuple(columns), numbers)
        fast, good = np.flatnonzero(~doubt), pa.array(~doubt)

        def outcome(row: int) -> list[Value] | BadRow:
            number = int(numbers[row])
            values = self._row_values(sources, row, file, number)
            if not isinstance(values, BadRow):
                return values
            text = self._text({**batch.fields(row), **others(number)})
            return replace(values, payload=text[:MAX_PAYLOAD], size=len(text))

        exact, values = exact_rows(((row, outcome(row)) for row in np.flatnonzero(doubt).tolist()), rejects)
        columns = [column.filter(good) for column in columns]
        return merge_rows(numbers, fast, columns, exact, values, self._targets)

    def _constant(self, target: Target) -> pa.Scalar:
        """The value of a column that is not in the file."""
        return self._typed_constants[target.source] if self._takes_typed(target) else self._constants[target.source]

    def _takes_typed(self, target: Target) -> bool:
        """Whether a column takes a value by its type: digits of a text are read as the nearest number, and texts for
        bytes as base64.
        """
        value = self._typed_constants.get(target.source)
        if value is None:
            return False
        if pa.types.is_binary(value.type):
            return bool(pa.types.is_binary(target.column.type.arrow))
        return target.column.type.name in _FLOATING

    def _row_values(self, sources: list[SourceColumn | None], row: int, file: str, number: int) -> list[Value] | BadRow:
        values: list[Value] = []
        for target, values_of in zip(self._targets, sources, strict=True):
            value = None if values_of is None else attempted(exact_value, values_of, row, target, self._alias)
            if isinstance(value, Refusal):
                if value.reason is Reason.NO_ZONE and self._zone_of and target.source in self._constants:
                    value = replace(value, expected=f"a zone for column {target.column.name}: {self._zone_of}")
                shown = "" if values_of is None else show(values_of.scalar(row))
                return bad_row(file, number, target.column.name, value, shown, unit=self._unit)
            values.append(value)
        return values


Choose = Callable[[TypedRows], Mapping[int, Ints]]
Wanted = tuple[ParquetDecoder, Rejects, Callable[[Sequence[str]], None]]


def decode_together(
    planned: PlannedFile, tables: Mapping[int, Wanted], chooser: tuple[Wanted, Choose] | None = None
) -> Iterator[tuple[int, TypedRows]]:
    """Typed rows of a file for several tables, by number, batch by batch; each column is read once.

    ``chooser`` decodes what decides, and tells the numbers of the rows of each table; without one all rows are of all.
    FeedError if it is no Parquet file, damaged, or has a wanted column twice.
    """
    split = planned.split
    every = [*tables.values(), *([chooser[0]] if chooser is not None else [])]
    decoders = [decoder for decoder, _, _ in every]
    try:
        file = opened(planned, decoders[0].known_file)
        names = file.declared.names
        wanted = sorted(set().union(*(decoder.require(file, split.path, check) for decoder, _, check in every)))
        kept = _kept(file, decoders[0].known_file, split.path)
        for _, rejects, _ in tables.values():
            rejects.source.count(file.rows)
            rejects.source.leave(0 if kept is None else file.rows - int(kept.sum()))
        extras = {number: decoder.extras(names) for number, (decoder, _, _) in tables.items()}
        absent = {number: decoder.absent(names) for number, (decoder, _, _) in tables.items()}
        others = _Others(planned, [name for name in names if name not in wanted], decoders)
        start = file.first_row
        for batch in file.batches(wanted):
            numbers = np.arange(start, start + batch.rows.num_rows, dtype=np.int64)
            start += batch.rows.num_rows
            if kept is not None:
                there = kept[numbers - file.first_row]
                batch, numbers = batch.where(there), numbers[there]
            chosen: Mapping[int, Ints] = dict.fromkeys(tables, numbers)
            if chooser is not None:
                (decoder, rejects, _), choose = chooser
                chosen = choose(decoder.typed(batch, numbers, decoder.path_of(split), rejects, others.fields))
            for number, (decoder, rejects, _) in tables.items():
                part, rows_of = batch, chosen[number]
                if len(rows_of) < len(numbers):
                    mask = np.zeros(len(numbers), np.bool_)
                    mask[np.searchsorted(numbers, rows_of)] = True
                    part = batch.where(mask)
                why, path = decoder.refused(extras[number], absent[number]), decoder.path_of(split)
                if why is not None:
                    yield number, decoder.reject_all(part, rows_of, path, rejects, others.fields, why)
                    continue
                rows = decoder.typed(part, rows_of, path, rejects, others.fields)
                for name in extras[number]:
                    rejects.ignored[name] += len(rows)
                for target in absent[number]:
                    rejects.absent[target.column.name] += len(rows)
                yield number, rows
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise no_parquet(split.path, error, AGAIN) from error


def opened(planned: PlannedFile, known: KnownFile) -> ForeignParquet:
    """The file, with the names that its columns have in their table."""
    file = planned_parquet(planned, utc96=known.utc96)
    if known.logical is not None:
        file.rename(known.logical)
    return file


def _kept(file: ForeignParquet, known: KnownFile, path: str) -> npt.NDArray[np.bool_] | None:
    """Which rows of a file its table still has; None: all. FeedError: it has another number of rows in its footer."""
    if known.rows not in (None, file.rows):
        raise FeedError(
            "feed file has another number of rows than its table says",
            where=path,
            expected=f"{known.rows} rows",
            found=f"{file.rows} rows in its footer",
            hint="restore the file from a copy, or correct the table. Nothing of it was committed",
        )
    return None if known.kept is None else known.kept(file.rows)


class _Others:
    """Further fields of a file (``names`` None: all of them), read only as far as a bad row asks for them."""

    def __init__(self, planned: PlannedFile, names: list[str] | None, decoders: Sequence[ParquetDecoder]) -> None:
        self._planned, self._names, self._decoders = planned, names, decoders
        self._batches: Iterator[ParquetBatch] | None = None
        self._start = self._stop = 1  # numbers of the rows in ``_batch``
        self._batch: ParquetBatch | None = None

    def fields(self, number: int) -> dict[str, pa.Scalar]:
        """Fields of the row with this number, counted from 1; rows are asked for in order. FeedError: damage."""
        if self._names == []:
            return {}
        try:
            return self._fields(number)
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise no_parquet(self._planned.split.path, error, AGAIN) from error

    def _fields(self, number: int) -> dict[str, pa.Scalar]:
        if self._batches is None or number < self._start:  # a block is decoded anew in parts
            file = opened(self._planned, self._decoders[0].known_file)
            self._batches, self._start, self._stop = file.batches(self._names), file.first_row, file.first_row
        while number >= self._stop:
            self._batch = next(self._batches, None)
            if self._batch is None:
                raise pa.ArrowInvalid("columns of different numbers of rows")
            self._start, self._stop = self._stop, self._stop + self._batch.rows.num_rows
        assert self._batch is not None  # noqa: S101 there are as many rows as of the other fields
        return self._batch.fields(number - self._start)

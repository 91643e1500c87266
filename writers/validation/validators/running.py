"""Runs a validator over the rows of a date. What it does wrong fails the rule; it never ends the command."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa

from sparkhaven.store.types.model import Column
from sparkhaven.writers.validation.rows.date_rows import RowSet
from sparkhaven.writers.validation.rules.rule_scope import SHOWN, Measure, plural
from sparkhaven.writers.validation.validators.declared import Validator
from sparkhaven.writers.validation.validators.user_code import USERS, line_of, words_of

TEXT = 200  # characters of a finding that are kept
OnError = Callable[[BaseException], None]


def run_validator(validator: Validator, rows: RowSet, on_error: OnError = lambda _: None) -> Measure:
    """The number of findings, which passes if it is 0; the first ``SHOWN`` are the message.

    An error of the function, or a result that is no iterable of texts, fails with its line, and ``on_error`` gets it.
    NotEvaluatedError: the table lacks a declared column. Errors of reading are raised, whatever the function makes of
    them.
    """
    batches = _Batches(rows, validator.declared.columns)
    try:
        count, shown = _findings(validator.check(iter(batches)))
    except USERS as error:
        if batches.error is not None:
            raise batches.error from None
        on_error(error)
        line = line_of(error, validator.file)
        return Measure(False, None, 0, 0, f"raised {words_of(error)}" + (f", at {line}" if line else ""))
    if batches.error is not None:
        raise batches.error
    shown += [f"and {count - len(shown)} more"] if count > len(shown) else []
    return Measure(not count, count, 0, 0, plural(count, "finding") + (": " if count else "") + "; ".join(shown))


def _findings(returned: object) -> tuple[int, list[str]]:
    if isinstance(returned, str | bytes) or not hasattr(returned, "__iter__"):
        raise TypeError(f"the validator returned {type(returned).__name__}, not a list or iterator of texts")
    count, shown = 0, list[str]()
    for finding in returned:
        if not isinstance(finding, str):
            raise TypeError(f"a finding is {type(finding).__name__}, not a text")
        count += 1
        if len(shown) < SHOWN:
            line = " ".join(finding[: TEXT + 1].split())
            shown.append(line if len(finding) <= TEXT else f"{line[: TEXT - 1]}…")
    return count, shown


class _Batches:
    """The batches of all rows with some columns; ``error`` is what reading them raised."""

    def __init__(self, rows: RowSet, names: tuple[str, ...]) -> None:
        self._rows, self._columns = rows, [rows.column(name) for name in names]
        self.error: BaseException | None = None

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        names = [column.name for column in self._columns]
        blocks = self._rows.blocks(names)
        while True:
            try:
                block = next(blocks, None)
                if block is None:
                    return
                arrays = [_plain(block.cells[column.name].arrow(), column) for column in self._columns]
            except BaseException as error:
                self.error = error
                raise
            yield pa.RecordBatch.from_arrays(arrays, names)


def _plain(array: pa.Array, column: Column) -> pa.Array:
    return array if array.type == column.type.arrow else array.cast(column.type.arrow)

"""The symbol table of a column of sets in history: one for all locations of a date, sorted."""

from __future__ import annotations

import numpy as np

from sparkhaven.store.errors import MergeError
from sparkhaven.store.types.codings.string_set import MOST_SYMBOLS, Words, bits_in_use, moved_bits, sorted_texts
from sparkhaven.store.types.model import Column
from sparkhaven.writers.merge.plan.open_source import Columns
from sparkhaven.writers.merge.sources.merge_source import ColumnSource


def set_table(columns: Columns, column: Column) -> list[str]:
    """The texts of all sources, or, where these are more than a location may have, of those that rows have.

    MergeError: they are too many still.
    """
    plan = columns.plan
    sources = [columns.open(index, column) for index in range(len(plan.sources))]
    table = sorted_texts(source.symbols() for source in sources)
    if len(table) <= MOST_SYMBOLS:
        return table
    table = sorted_texts(source.symbols().filter(_in_use(source, plan.options.sizes.rows)) for source in sources)
    if len(table) > MOST_SYMBOLS:
        raise MergeError(
            f"sets of column {column.name} have too many texts for one location",
            where=f"{plan.table}, date {plan.value}",
            expected=f"at most {MOST_SYMBOLS} different texts in all sources of the date",
            found=f"{len(table)}",
            hint="declare the column as String[] in a new column, or split the date over tables",
        )
    return table


def _in_use(source: ColumnSource, rows: int) -> list[bool]:
    bits = 0
    for first, stop in source.source.blocks(rows):
        bits |= bits_in_use(source.entries(first, stop))
    return [bool(bits >> bit & 1) for bit in range(len(source.symbols()))]


def moved_words(source: ColumnSource, table: list[str], first: int, stop: int) -> Words:
    """The words of rows of a source, with the bits of the table."""
    bits = {text: bit for bit, text in enumerate(table)}
    targets = np.array([bits.get(text, -1) for text in source.symbols().to_pylist()], np.int64)
    return moved_bits(source.entries(first, stop), targets)

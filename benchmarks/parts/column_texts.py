"""Columns of any type as lines of JSON, and how long the decoder takes for them."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa

from sparkhaven.ingest.bad_rows import Rejects
from sparkhaven.ingest.content.lines import framed_block
from sparkhaven.ingest.formats.json.json_rows import JsonDecoder
from sparkhaven.ingest.spec import BadRowBudget, Target
from sparkhaven.store.types.model import Column
from tests.support.writers.coded_rows import counted

BUDGET = BadRowBudget(10**9, 1.0)


def decoding(arrays: Mapping[Column, pa.Array]) -> Callable[[], object]:
    """Decodes lines with a field for each column, all of them good rows."""
    targets = [Target(column, column.name, "iso", None, None, True) for column in arrays]
    fields = [[f'"{column.name}":{text}' for text in json_texts(array)] for column, array in arrays.items()]
    lines = [("{" + ",".join(parts) + "}").encode() for parts in zip(*fields, strict=True)]
    block, rows = framed_block(lines, np.arange(len(lines))), JsonDecoder(targets, ())

    def decode() -> None:
        rejects = Rejects(BUDGET)
        rows.decode(block, "f", rejects)
        if rejects.rows:
            raise ValueError(rejects.rows[0])

    return decode


def json_texts(array: pa.Array) -> list[str]:
    """The JSON text of each value; what JSON has no number for is written as 1.5, U+0000 as a letter."""
    kinds, kind = pa.types, array.type
    if kinds.is_date(kind) or kinds.is_time(kind):
        return [_json(None if text is None else str(text)) for text in array.cast(pa.string()).to_pylist()]
    values = counted(array).to_pylist()
    if kinds.is_list(kind) and kinds.is_timestamp(kind.value_type):
        return [_json(None if one is None else [_moment(ns) for ns in one]) for one in values]
    if kinds.is_list(kind) and kinds.is_uint16(kind.value_type):
        return [_json(None if one is None else [None if c is None else chr(c or 0x41) for c in one]) for one in values]
    if kinds.is_map(kind):
        return [_json(None if one is None else dict(one)) for one in values]
    return [_json(value) for value in values]


def _moment(ns: int | None) -> str | None:
    return None if ns is None else f"{np.datetime64(ns, 'ns')}Z"


def _json(value: Any) -> str:
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, bytes):
        return json.dumps(base64.b64encode(value).decode())
    if isinstance(value, list):
        value = [1.5 if isinstance(one, float) and not math.isfinite(one) else one for one in value]
    return json.dumps(value)

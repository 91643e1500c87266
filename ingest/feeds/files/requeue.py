"""Rejected rows of files decoded once more, one at a time, from what quarantine keeps of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
import pyarrow as pa

from sparkhaven.ingest.bad_rows import BadRow, Rejects, bad_row
from sparkhaven.ingest.encodings import in_own_bytes, to_utf8
from sparkhaven.ingest.feeds.base import RequeuedRows
from sparkhaven.ingest.feeds.files.decode import FAR_FILE, position_column
from sparkhaven.ingest.feeds.files.formats.decoding import Decoding
from sparkhaven.ingest.feeds.files.formats.table import FORMATS
from sparkhaven.ingest.spec.payload_formats import UTF8
from sparkhaven.ingest.values.instants import INSTANT_HIGH
from sparkhaven.ingest.values.refusals import Refusal, Value, attempted, out_of_range
from sparkhaven.ingest.values.typed_rows import TypedRows, typed_array
from sparkhaven.store.quarantine.rejected_rows import Reason, RejectedRow


def requeue_file_rows(
    source: str,
    rows: Sequence[RejectedRow],
    decoding: Decoding,
    now_ns: int,
    rejects: Rejects,
    path: str | None = None,
) -> RequeuedRows:
    """Rows of one file, each by the exact rules of its format; ``path`` of the file (default: ``source``).

    ``decoding`` has all columns, also those that are not of the content of files.
    """
    targets, form, encoding = decoding.targets, FORMATS[decoding.options.format], decoding.options.encoding
    payload_targets = tuple(target for target in targets if target.meta is None)
    values_of, unit = form.code.decode_one(replace(decoding, targets=payload_targets)), form.unit
    complete = partial(in_own_bytes, encoding) if encoding != UTF8 else None
    strict = [target.column.name for target in targets if target.meta == "timestamp" and target.far is None]
    kept: list[RejectedRow] = []
    values: list[list[Value]] = []
    with rejects.completing(complete):
        for row in rows:
            rejects.read += 1
            payload, number, time_ns = to_utf8(row["Payload"] or b"", encoding), row["Position"], row["SourceTime"] or 0
            outcome: list[Value] | BadRow | Refusal
            if payload.strip():
                outcome = attempted(values_of, payload, row, rejects)
                if isinstance(outcome, Refusal):
                    outcome = bad_row(source, number, None, outcome, "", payload, unit=unit)
                if strict and abs(time_ns) == INSTANT_HIGH and not isinstance(outcome, BadRow):
                    outcome = bad_row(
                        source, number, strict[0], out_of_range(time_ns > 0), FAR_FILE, payload, unit=unit
                    )
            else:
                outcome = bad_row(source, number, None, Refusal(Reason.EMPTY, "a row"), "", payload, unit=unit)
            if isinstance(outcome, BadRow):
                rejects.add_all([outcome])
            else:
                kept.append({**row, "Payload": payload})
                values.append(outcome)
    arrays = iter([typed_array([value[n] for value in values], t) for n, t in enumerate(payload_targets)])
    file = source if path is None else path
    numbers = np.array([row["Position"] for row in kept], np.int64)
    times = pa.array([row["SourceTime"] for row in kept], pa.int64())
    columns = tuple(
        next(arrays) if t.meta is None else position_column(t, file, numbers, times, now_ns) for t in targets
    )
    payloads = {row["Position"]: row["Payload"] or b"" for row in kept}
    return RequeuedRows(source, TypedRows(columns, numbers), payloads, unit, complete)

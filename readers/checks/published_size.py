"""Read-only check of a location's ``table.size`` against what was committed.

A stream may publish while a check runs, so a record may name a later epoch than the state that was loaded. It is
compared with the state of its own epoch then: the log is loaded again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Literal

from sparkhaven.readers.checks.column_values import Expected
from sparkhaven.readers.checks.findings import CheckFinding, finding, from_error
from sparkhaven.store.epochs.files.published_size import record_bytes
from sparkhaven.store.epochs.reading.stream_state import load_stream
from sparkhaven.store.epochs.state.replay import StreamState
from sparkhaven.store.errors import SparkhavenError, TableNotFoundError
from sparkhaven.store.format.table.table_size import NAME as TABLE_SIZE
from sparkhaven.store.format.table.table_size import TableSize, decode, encode
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.places import TablePlace

RECOVER = "run `sparkhaven recover`"
REMERGE = "merge the date again with --rewrite"
TRIES = 5  # for a record whose epoch is folded away before it can be loaded
_SAME = ", and other times, stream or checksums"


class LaterEpochs:
    """Locations of a stream at epochs after the state that a check has loaded. Remembers the newest state."""

    def __init__(self, place: TablePlace, state: StreamState) -> None:
        self._place = place.of_stream(state.stream)
        self._loaded, self._newest = state.epoch, state

    def has(self, epoch: int) -> bool:
        """Whether the log has an epoch by now that it did not have when the state was loaded."""
        if self._newest.epoch < epoch:
            self._newest = load_stream(self._place)
        return self._loaded < epoch <= self._newest.epoch

    def record(self, key: LocationKey, epoch: int) -> bytes | None:
        """The record that an epoch publishes for a location, empty if it does not; None: the epoch is not kept."""
        location = self._newest.locations.get(key)
        if location is None or location.epoch != epoch:
            try:
                location = load_stream(self._place, epoch=epoch).locations.get(key)
            except TableNotFoundError:
                return None
        return b"" if location is None or location.epoch != epoch else record_bytes(self._place.stream, location)


def check_record(
    fs: Fs, expected: Expected, names: Sequence[str], later: LaterEpochs | None = None
) -> Iterator[CheckFinding]:
    """The location's ``table.size`` against the committed state, or that of ``later`` epochs where it names one."""
    path = expected.directory / TABLE_SIZE
    intraday = expected.tier == "intraday"
    hint = RECOVER if intraday else REMERGE
    if TABLE_SIZE not in names:
        severity: Literal["error", "warning"] = "warning" if intraday else "error"
        yield finding(
            severity, path, "location is not published. Its record is missing", expected=TABLE_SIZE, hint=hint
        )
        return
    for _ in range(TRIES):
        try:
            data = fs.read(path)
            if data == expected.published:
                return
            record = decode(data, path)
            epoch = record.epoch or 0
            if later is None or not later.has(epoch):
                break
            published = later.record(expected.key, epoch)
        except (SparkhavenError, OSError) as error:
            yield from_error(error, path)
            return
        if published == data:
            return
        if published is not None:
            break
    else:
        what = "record was published by an epoch that is no longer kept. It was not compared"
        yield finding("note", path, what, found=f"epoch {epoch}", hint="verify again when the stream is at rest")
        return
    yield from _differences(expected, record, data, names, hint)


def _differences(
    expected: Expected, record: TableSize, data: bytes, names: Sequence[str], hint: str
) -> Iterator[CheckFinding]:
    intraday = expected.tier == "intraday"
    for name in record.data_indexes:
        if name not in names:
            yield finding("error", expected.directory / name, "index is missing", expected="a directory", hint=hint)
    sizes = {name: state.size for name, state in expected.files.items()}
    same = (record.size, dict(record.data_file_sizes), record.truncated) == (expected.rows, sizes, expected.truncated)
    sums = {name: state.crc for name, state in expected.files.items()}
    if not intraday and same and dict(record.checksums) == sums and encode(record) == data:
        return
    unmarked = expected.truncated and not record.truncated  # a truncate has recorded it, and was stopped
    behind = intraday and ((record.epoch or 0) < (expected.epoch or 0) or unmarked)
    yield finding(
        "warning" if behind else "error",
        expected.directory / TABLE_SIZE,
        "record is behind the commit log" if behind else "record differs from what was committed",
        expected=f"{expected.rows} rows, epoch {expected.epoch}"
        + _differing(sizes, record)
        + ("" if not same else _SAME),
        found=f"{record.size} rows, epoch {record.epoch}",
        hint=hint,
    )


def _differing(sizes: Mapping[str, int], record: TableSize) -> str:
    recorded = record.data_file_sizes
    other = sorted(name for name in {*sizes, *recorded} if sizes.get(name) != recorded.get(name))
    return f", other lengths of {', '.join(other[:3])}{' ...' if len(other) > 3 else ''}" if other else ""

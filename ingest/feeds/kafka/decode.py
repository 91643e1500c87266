"""One planned range of offsets to blocks of typed rows, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial

import numpy as np
import pyarrow as pa

from sparkhaven.ingest.bad_rows import Rejects
from sparkhaven.ingest.feeds.base import SILENT, Block, Clock
from sparkhaven.ingest.feeds.kafka.blocks import Messages
from sparkhaven.ingest.feeds.kafka.broker.errors import partition_name
from sparkhaven.ingest.feeds.kafka.broker.reader import KafkaReader
from sparkhaven.ingest.feeds.kafka.framed import FramedMessages
from sparkhaven.ingest.feeds.kafka.messages import MessageRows, completed, header_names
from sparkhaven.ingest.feeds.kafka.options import KafkaOptions, ReadLimits
from sparkhaven.ingest.kept_decoders import SMALL_ROWS, KeptDecoders
from sparkhaven.ingest.router import Router, newest_instant
from sparkhaven.ingest.spec.stream_spec import StreamSpec, Target
from sparkhaven.ingest.spec.table_routes import TableRoutes
from sparkhaven.ingest.table_choice import TableChoice, TableRows, counting, lines_of, routing_target
from sparkhaven.ingest.targets.target_columns import resolve_targets
from sparkhaven.ingest.values.typed_rows import TypedRows
from sparkhaven.store.epochs.state.log_values import OffsetRange
from sparkhaven.store.gc_pause import gc_paused
from sparkhaven.store.instants import NS_PER_SECOND
from sparkhaven.store.types.model import TableSchema


def _decoder(spec: StreamSpec, schema: TableSchema, options: KafkaOptions) -> tuple[tuple[Target, ...], MessageRows]:
    targets = resolve_targets(spec, schema)
    return targets, MessageRows(targets, options, spec)


_DECODERS = KeptDecoders(_decoder)


def message_blocks(
    reader: KafkaReader,
    split: OffsetRange,
    spec: StreamSpec,
    options: KafkaOptions,
    schema: TableSchema,
    rejects: Rejects,
    clock: Clock,
) -> Iterator[Block]:
    """Typed rows of one range block by block; bad rows and counts go to ``rejects``.

    Nothing of a range may be committed before the iterator has ended, since it proves last that the topic is still the
    one that was planned. Raises what ``KafkaReader.read`` raises, and ErrorBudgetExceeded when the range has more bad
    rows than a batch may have.
    """
    small = split.stop - split.start <= SMALL_ROWS
    targets, decoder = _DECODERS.of(spec, schema, options, small=small)
    source = partition_name(split.topic, split.partition)
    blocks: Iterable[FramedMessages] = reader.read(split)
    chosen = spec.partition.clock
    clock_ns = chosen.now_ns(clock)
    if chosen.kind == "batch" and spec.partition.value.column is not None:
        clock_ns, held = _newest(decoder, blocks, source, targets, options.limits, spec)
        blocks = reader.read(split) if held is None else held
    router = Router(targets, spec.partition, source, clock_ns, "offset")
    rejects.source.count(0)
    for block in blocks:
        rejects.source.count(len(block.offsets))
        with gc_paused():  # ended before the yield: what the caller does with the rows is not part of the pause
            rows = decoder.decode(block, source, round(clock() * NS_PER_SECOND), rejects)
        yield router, rows, block.value_at
        rejects.complete = None


def message_table_blocks(
    reader: KafkaReader,
    split: OffsetRange,
    tables: Mapping[int, TableRows],
    routes: TableRoutes,
    options: KafkaOptions,
    clock: Clock,
) -> Iterator[tuple[int, Block]]:
    """The same for the rows of several tables, by number. Raises what ``message_blocks`` raises."""
    source = partition_name(split.topic, split.partition)
    decoders: dict[int, MessageRows] = {}
    routers: dict[int, Router] = {}
    for number, table in tables.items():
        targets = resolve_targets(table.spec, table.schema)
        decoders[number] = MessageRows(targets, options, counting(table.spec, routes))
        routers[number] = Router(
            targets, table.spec.partition, source, table.spec.partition.clock.now_ns(clock), "offset"
        )
    choice = TableChoice(routes, tables, source, "offset")
    refusing = tables.get(routes.refusing)
    headers = () if refusing is None else header_names([item.meta for item in refusing.spec.columns])
    deciding = MessageTexts(routes, options, next(iter(tables.values())).spec, split.topic, headers)
    for table in tables.values():
        table.rejects.source.count(0)
    for block in reader.read(split):
        for table in tables.values():
            table.rejects.source.count(len(block.offsets))
        received_ns = round(clock() * NS_PER_SECOND)
        with gc_paused():
            chosen = choice.numbers_of(deciding.of(block, source, received_ns, choice.probe), block.value_at)
        for number, offsets in chosen.items():
            if not len(offsets):
                continue
            rejects = tables[number].rejects
            with gc_paused():
                part = block if len(offsets) == len(block.offsets) else block.where(lines_of(block.offsets, offsets))
                rows = decoders[number].decode(part, source, received_ns, rejects)
            yield number, (routers[number], rows, part.value_at)
            rejects.complete = None
        choice.probe.complete = None


class MessageTexts:
    """The texts that decide about messages: a field of their values, or their topic, which is not decoded at all.

    Rejected messages keep those of ``headers``.
    """

    def __init__(
        self, routes: TableRoutes, options: KafkaOptions, spec: StreamSpec, topic: str, headers: Sequence[str]
    ) -> None:
        by_topic = routes.kind == "topic"
        self._topic, self._headers = topic if by_topic else None, headers
        self._rows = None if by_topic else MessageRows((routing_target(routes),), options, spec, headers, strict=False)

    def of(self, block: Messages, source: str, received_ns: int, probe: Rejects) -> TypedRows:
        """One column of texts."""
        if self._rows is not None:
            return self._rows.decode(block, source, received_ns, probe)
        codes = pa.array(np.zeros(len(block.offsets), np.int32))
        probe.complete = partial(completed, block, self._headers)
        return TypedRows((pa.DictionaryArray.from_arrays(codes, pa.array([self._topic], pa.string())),), block.offsets)


def _newest(
    decoder: MessageRows,
    blocks: Iterable[FramedMessages],
    source: str,
    targets: Sequence[Target],
    limits: ReadLimits,
    spec: StreamSpec,
) -> tuple[int, list[FramedMessages] | None]:
    """The newest instant of a range, and its blocks; None where they are more than is held, and have to be read again.

    It is known when all of the range was seen.
    """
    silent, rule = Rejects(SILENT, keep=0), spec.partition.value
    instants: list[int] = []
    held: list[FramedMessages] | None = []
    size = messages = 0
    for block in blocks:
        with gc_paused():
            rows = decoder.decode(block, source, 0, silent)
        newest = newest_instant(rows, targets, rule)
        instants += [] if newest is None else [newest]
        size, messages = size + block.size, messages + len(block)
        if size > limits.held_bytes or messages > limits.held_messages:
            held = None
        elif held is not None:
            held.append(block)
    return max(instants, default=0), held

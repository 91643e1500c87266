"""The trades of the demo: sent to a topic at a steady rate, and known again when they are read."""

from __future__ import annotations

import json
import threading
import time
from array import array

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import KafkaError, KafkaException, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from demo.figures import Figure
from sparkhaven.store.errors import RetryableFeedError

TABLE, VARIABLE = "Live.Trade", "Live_Trade"
TOPIC = "trades"
PARTITIONS = 2
SYMBOLS = ("AAPL", "AMZN", "IBM", "MSFT", "NVDA")
PAUSE_SECONDS = 0.005
SEND_SECONDS = 60.0
INSTANT = pa.timestamp("us", "UTC")
SCHEMA = pa.schema(
    {"Sym": pa.string(), "Seq": pa.int64(), "Price": pa.float64(), "Size": pa.int32(), "At": pa.timestamp("ns", "UTC")}
)


def values(seq: int) -> tuple[str, float, int]:
    """Symbol, price and size of a trade; they follow from its number."""
    symbol_index = seq % len(SYMBOLS)
    return SYMBOLS[symbol_index], (10_000 * (symbol_index + 1) + seq * 7_919 % 997) / 100, 100 + seq % 13 * 50


def message(seq: int, at_us: int) -> bytes:
    """One trade as a JSON object; ``at_us``: microseconds since the epoch."""
    sym, price, size = values(seq)
    return json.dumps({"Sym": sym, "Seq": seq, "Price": price, "Size": size, "At": at_us}).encode()


def produced(times: array[int]) -> pa.Table:
    """The trades that were sent at ``times`` (microseconds), by their numbers."""
    syms, prices, sizes = zip(*(values(seq) for seq in range(len(times))), strict=True) if times else ((), (), ())
    instants = pa.array(np.frombuffer(times, np.int64), INSTANT).cast(SCHEMA.field("At").type)
    seqs = pa.array(range(len(times)), pa.int64())
    return pa.table([pa.array(syms), seqs, prices, pa.array(sizes, pa.int32()), instants], schema=SCHEMA)


def compare(sent: pa.Table, table: pa.Table, reader: str) -> list[Figure]:
    """Counts, and how many values are equal; rows in any order, each of which has a number of its own."""
    shown = table.select(SCHEMA.names).cast(SCHEMA).sort_by("Seq")
    numbers = Figure(f"different rows {reader}", sent.num_rows, pc.count_distinct(shown["Seq"]).as_py())
    rows = Figure(f"rows {reader}", sent.num_rows, shown.num_rows)
    if not rows.ok or not numbers.ok:
        return [rows, numbers]
    equal = sum(pc.sum(pc.fill_null(pc.equal(sent[name], shown[name]), False)).as_py() or 0 for name in SCHEMA.names)
    return [rows, numbers, Figure(f"values equal to those sent {reader}", sent.num_rows * len(SCHEMA.names), equal)]


def create_topic(bootstrap: str) -> None:
    """An empty topic. RetryableFeedError: the broker does not create it."""
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 3})
    try:
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(30)
    except KafkaException as error:
        raise RetryableFeedError("the topic cannot be created", where=TOPIC, found=error.args[0].str()) from None


class TradeSource(threading.Thread):
    """Sends trades at a steady rate until it is stopped; ``times[n]`` is when trade n was given to the client (us)."""

    def __init__(self, bootstrap: str, rows_a_second: int) -> None:
        super().__init__(daemon=True)
        settings = {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5, "log_level": 3}
        self._producer = Producer(settings)
        self._rate = rows_a_second
        self._stop_asked = threading.Event()
        self._refused = ""
        self._acknowledged = 0
        self.times = array("q")

    def run(self) -> None:
        """Sends what is due, some two hundred times a second."""
        begun = time.monotonic()
        while not self._stop_asked.wait(PAUSE_SECONDS):
            due = int((time.monotonic() - begun) * self._rate)
            while len(self.times) < due:
                self._send(len(self.times))
            self._producer.poll(0)

    def _send(self, seq: int) -> None:
        now = time.time_ns() // 1_000
        while True:
            try:
                self._producer.produce(TOPIC, message(seq, now), values(seq)[0], on_delivery=self._done)
                break
            except BufferError:
                self._producer.poll(0.1)
        self.times.append(now)

    def _done(self, error: KafkaError | None, sent: Message) -> None:
        if error is None:
            self._acknowledged += 1
        else:
            self._refused = error.str()

    def stop(self) -> None:
        self._stop_asked.set()
        self.join()

    def finish(self) -> pa.Table:
        """Stops; the trades that were sent. RetryableFeedError: not every one was acknowledged."""
        self.stop()
        self._producer.flush(SEND_SECONDS)
        if self._acknowledged != len(self.times):
            raise RetryableFeedError(
                "messages were not acknowledged",
                where=TOPIC,
                expected=len(self.times),
                found=f"{self._acknowledged} {self._refused}".strip(),
            )
        del self._producer  # else it reports the end of the broker
        return produced(self.times)

"""The topic of the chaos campaign: what message has which offset, and the table that must come of it.

Every row follows from its place: the message at an offset of a partition has an id of its own, and the same date,
symbol and text whenever it is made. So a reader needs no list of what was sent, only how far each partition was taken.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from confluent_kafka import Producer

from sparkhaven.store.layout import TableName

TABLE = TableName("Chaos", "Tick")
STREAM = "ticks"
TOPIC = "ticks"
PARTITIONS = 4
DAYS = ("2026-11-19", "2026-11-20", "2026-11-21")
BLOCK = 40  # offsets of a partition that follow each other into one date
SYMBOLS = 97
EVERY_NULL = 11

SCHEMA = """<Table namespace="Chaos" name="Tick" storageType="NestedPartitionedOnDisk">
  <Partitions keyFormula="${autobalance_single}"/>
  <Column name="Date" dataType="String" columnType="Partitioning"/>
  <Column name="Id" dataType="long"/>
  <Column name="Sym" dataType="String"/>
  <Column name="Text" dataType="String" symbolTable="None"/>
  <Column name="At" dataType="long"/>
</Table>"""

SETTINGS = """name = "ticks"
table = "Chaos.Tick"
schema = "Chaos.Tick.schema"
[feed]
type = "kafka"
bootstrap = "{bootstrap}"
topics = ["ticks"]
format = "json"
max_per_trigger = {{ rows = {rows} }}
[columns]
At = {{ meta = "offset" }}
[partition]
internal = {{ meta = "partition" }}
value = {{ column = "Time", zone = "UTC", format = "yyyy-MM-dd" }}
clock = "2026-11-21T12:00:00Z"
[bad_rows]
max_rows = 0
[commit]
trigger = "0.3 seconds"
keep_epochs = 50
"""


def stream_file(base: Path, bootstrap: str, rows: int) -> Path:
    """Schema and stream file below ``base``, for batches of at most so many rows."""
    (base / "Chaos.Tick.schema").write_text(SCHEMA, encoding="utf-8")
    path = base / "ticks.toml"
    path.write_text(SETTINGS.format(bootstrap=bootstrap, rows=rows), encoding="utf-8")
    return path


def message(partition: int, offset: int) -> bytes:
    """What is sent."""
    number = offset * PARTITIONS + partition
    row = {"Id": number, "Sym": f"s{number % SYMBOLS}", "Time": f"{DAYS[offset // BLOCK % len(DAYS)]}T12:00:00Z"}
    if number % EVERY_NULL:
        row["Text"] = f"text {number}"
    return json.dumps(row).encode()


def offsets_of(day: str, stop: int) -> np.ndarray:
    """Offsets before ``stop`` whose rows are of a date, in order."""
    offsets = np.arange(stop, dtype=np.int64)
    found: np.ndarray = offsets[offsets // BLOCK % len(DAYS) == DAYS.index(day)]
    return found


class Source:
    """Fills the topic. ``sent`` messages are in each partition, at offsets from 0 on."""

    def __init__(self, bootstrap: str) -> None:
        self.sent = 0
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,  # once each and in order, so that offsets are what they are said to be
                "linger.ms": 5,
                "queue.buffering.max.kbytes": 1 << 20,
                "queue.buffering.max.messages": 1_000_000,
                "log_level": 2,
            }
        )

    @property
    def rows(self) -> int:
        """Messages of all partitions."""
        return self.sent * PARTITIONS

    def send(self, rows: int) -> None:
        """So many messages more, spread evenly; all are acknowledged on return."""
        stop = self.sent + -(-rows // PARTITIONS)
        for offset in range(self.sent, stop):
            for partition in range(PARTITIONS):
                self._producer.produce(TOPIC, message(partition, offset), partition=partition)
            self._producer.poll(0)
        assert self._producer.flush(60) == 0, "the broker did not take all messages"
        self.sent = stop

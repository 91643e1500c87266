"""Mutated records through every decoder: each is a row or a bad row, and no exception gets out.

    python -m tests.support.ingest.fuzz_decoders [--inputs 200000] [--seed 1] [--only json,avro]

Messages go through value and key decoders, routing, quarantine and requeue. Files go through the decoder of files; a
file may be refused by an error of ours that names it. One column has a time zone that does not exist, so that some
records raise an exception: the guard is tried all the time. Any other exception that it has to catch is a defect, and
ends the run with 1, as does one that gets out, or a record that is neither a row nor a bad row.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import pickle
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from sparkhaven.ingest.bad_rows import BadRow, Rejects, as_batch
from sparkhaven.ingest.content.raw_file import PlannedFile
from sparkhaven.ingest.feeds.base import Block, route
from sparkhaven.ingest.feeds.delta.versions import changes_of, look, snapshot
from sparkhaven.ingest.feeds.files.decode import file_blocks
from sparkhaven.ingest.feeds.files.options import FilesOptions
from sparkhaven.ingest.feeds.kafka.messages import MessageDecoder, completed, requeue_messages
from sparkhaven.ingest.feeds.kafka.options import KafkaOptions
from sparkhaven.ingest.router import Router, TableRows
from sparkhaven.ingest.spec import (
    HEADER,
    AvroSource,
    ColumnSpec,
    CsvOptions,
    InternalRule,
    PartitionSpec,
    ProtobufSource,
    StreamSpec,
    Target,
    TextForm,
    ValueRule,
)
from sparkhaven.ingest.targets import resolve_targets
from sparkhaven.store.delta.log import version_file
from sparkhaven.store.delta.vectors import kept_rows
from sparkhaven.store.errors import SparkhavenError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.quarantine.rejected_rows import Reason
from tests.support.ingest import fuzz_inputs as inputs
from tests.support.ingest.ingest_cases import PLENTY, file_id, schema
from tests.support.ingest.messages import PLACE, Fake, block_of

Chance = random.Random
BLOCK = 200
FORKED = 100  # files of a process
NOW_NS = 1_795_184_000_000_000_000
POISON = "No/Such_Zone"
_KINDS = ("int", "double", "String", "Instant", "Boolean", "char", "String", "Instant")
COLUMNS = dict(zip("abcdefgh", _KINDS, strict=True))
SPECS = (
    ColumnSpec("d", zone="America/New_York", far="clamp"),
    ColumnSpec("g", form=TextForm(as_text=True)),
    ColumnSpec("h", zone="UTC"),
)
HEADERS = {"p": "trace", "q": "a:b", "r": "é ", "s": "n" * 9000}
NOW_MS = NOW_NS // 10**6
TIMES = (NOW_MS, NOW_MS, NOW_MS, NOW_MS, -1, 0, 253402300799999, 1_795_184_000_123_456, 2**63 - 1)


@dataclass(slots=True)
class Tally:
    """What became of the inputs of one decoder; ``defects`` are exceptions that no input may raise."""

    inputs: int = 0
    rows: int = 0
    bad: int = 0
    refused: int = 0
    guarded: int = 0
    defects: Counter[str] = field(default_factory=Counter)

    def add(self, other: Tally) -> None:
        """Adds the counts of another one."""
        for name in ("inputs", "rows", "bad", "refused", "guarded"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.defects += other.defects

    def see(self, rows: Sequence[BadRow]) -> None:
        """Counts bad rows, and looks at what the guard has caught."""
        self.bad += len(rows)
        as_batch(rows)
        for row in rows:
            if row.refusal.reason is Reason.DECODER_FAILED:
                self.guarded += 1
                if POISON not in row.explanation:
                    self.defects[row.explanation[:160]] += 1

    def __str__(self) -> str:
        refused = f", {self.refused:,} files refused" if self.refused else ""
        return f"{self.inputs:,} inputs: {self.rows:,} rows, {self.bad:,} bad ({self.guarded:,} by the guard){refused}"


Fuzz = Callable[[Chance, Path, Tally], None]


def _spec(feed: Any, columns: Sequence[ColumnSpec], partition: PartitionSpec) -> StreamSpec:
    return StreamSpec("s", "Test.Rows", feed, partition, tuple(columns), bad_rows=PLENTY)


def _poisoned(targets: Sequence[Target]) -> tuple[Target, ...]:
    return tuple(replace(target, zone=POISON) if target.column.name == "h" else target for target in targets)


def _value(record: Callable[[Chance], bytes], chance: Chance) -> bytes | None:
    return None if chance.random() < 0.02 else inputs.mutated(record(chance), chance)


def _key(record: Callable[[Chance], bytes], chance: Chance) -> bytes | None:
    return (
        inputs.mutated(record(chance), chance) if chance.random() < 0.7 else chance.choice((None, b"", b"k", b"\xff"))
    )


def _messages(
    record: Callable[[Chance], bytes], kafka: dict[str, Any], columns: dict[str, str], specs: Sequence[ColumnSpec]
) -> Fuzz:
    """Values by a decoder, keys and timestamps beside them; every message is accounted for, also when requeued."""
    options = KafkaOptions("h", ("t",), **kafka)
    partition = PartitionSpec(InternalRule("column", "c" if "c" in columns else "v"), ValueRule("at"), max_past_s=1e9)
    spec = _spec(options, (*specs, ColumnSpec("at", meta="timestamp"), ColumnSpec("k", meta="key")), partition)
    targets = _poisoned(resolve_targets(spec, schema(**columns, at="Instant", k="String")))
    names = [meta.removeprefix(HEADER) for one in specs if (meta := one.meta or "").startswith(HEADER)]

    def fuzz(chance: Chance, scratch: Path, tally: Tally) -> None:
        del scratch
        messages = [
            Fake(
                n,
                _value(record, chance),
                _key(record, chance),
                chance.choice(TIMES),
                int(n % 9 > 0),
                inputs.headers(chance, names) if names else None,
            )
            for n in range(BLOCK)
        ]
        rejects = Rejects(PLENTY)
        decoder = MessageDecoder(targets, spec)
        framed = block_of(messages, decoder.headers)
        rows = decoder.decode(framed, PLACE, NOW_NS, rejects)
        router = Router(targets, partition, PLACE, NOW_NS, "offset")
        block: Iterator[Block] = iter([(router, rows, lambda offset: messages[offset].payload or b"")])
        with rejects.completing(partial(completed, framed, decoder.headers)):
            stored = sum(routed.batch.num_rows for routed in route(block, rejects))
        tally.inputs, tally.rows = tally.inputs + BLOCK, tally.rows + stored
        tally.see(rejects.rows)
        lost = set(range(BLOCK)) - {row.line for row in rejects.rows}
        if stored + rejects.bad != BLOCK or rejects.read != BLOCK or len(lost) != stored:
            tally.defects[f"{BLOCK} messages are {stored} rows and {rejects.bad} bad rows of {rejects.read}"] += 1
        again = Rejects(PLENTY)
        requeue_messages(PLACE, as_batch(rejects.rows).to_pylist(), decoder, NOW_NS, again)

    return fuzz


def _files(content: Callable[[Chance], bytes], options: FilesOptions, name: str) -> Fuzz:
    partition = PartitionSpec(InternalRule("column", "c"), ValueRule("d"), max_past_s=1e9)
    spec = _spec(options, SPECS[:2], partition)
    table = schema(**COLUMNS)

    def fuzz(chance: Chance, scratch: Path, tally: Tally) -> None:
        path = scratch / name
        data = content(chance)
        path.write_bytes(data)
        rejects = Rejects(PLENTY)
        tally.inputs += 1 if options.format == "parquet" else BLOCK
        try:
            file = PlannedFile(Fs(), file_id(path))
            blocks = file_blocks(file, {0: TableRows(spec, table, rejects)}, None, options, lambda: NOW_NS / 1e9)
            stored = sum(routed.batch.num_rows for routed in route((block for _, block in blocks), rejects))
        except SparkhavenError as error:
            tally.refused += 1
            if str(path) not in str(error.where):
                tally.defects[f"{type(error).__name__} names no file: {error.what}"] += 1
            if "cannot be decoded" in error.what:
                tally.defects[f"{error.what}: {error.found}"[:160]] += 1
            return
        tally.rows += stored
        tally.see(rejects.rows)
        if stored + rejects.bad != rejects.read:
            tally.defects[f"{rejects.read} records are {stored} rows and {rejects.bad} bad rows"] += 1
        if stored + rejects.bad + rejects.source.left != rejects.source.counted:
            tally.defects[f"{rejects.source} are {stored} rows and {rejects.bad} bad rows"] += 1

    return fuzz


def _forked(fuzz: Fuzz) -> Fuzz:
    """The same in a process of its own, which may be ended by a library."""

    def forked(chance: Chance, scratch: Path, tally: Tally) -> None:
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            with open(writer, "wb") as pipe:
                for _ in range(FORKED):
                    one = Tally()
                    fuzz(chance, scratch, one)
                    pickle.dump(one, pipe)
                    pipe.flush()
            os._exit(0)
        os.close(writer)
        with open(reader, "rb") as pipe:
            data = pipe.read()
        _, status = os.waitpid(child, 0)
        given = io.BytesIO(data)
        while given.tell() < len(data):
            tally.add(pickle.load(given))
        if os.WIFSIGNALED(status):
            tally.inputs += 1
            tally.defects[f"a file ended its process by signal {os.WTERMSIG(status)}"] += 1
        elif status:
            raise AssertionError(f"a child ended with {status}")

    return forked


def _lines(record: Callable[[Chance], bytes], head: bytes) -> Callable[[Chance], bytes]:
    return lambda chance: head + b"\n".join(inputs.mutated(record(chance), chance) for _ in range(BLOCK))


def _delta(chance: Chance, scratch: Path, tally: Tally) -> None:
    table = scratch / "table"
    path = version_file(table, 0)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(inputs.mutated(inputs.delta_version(chance), chance))
    tally.inputs += 1
    try:
        changes = changes_of(Fs(), table, 0)
        assert changes is not None
        look(Fs(), table)
        for file in snapshot(Fs(), table, 0):
            kept_rows(Fs(), 1 << 17, file.vector)
    except SparkhavenError:
        tally.refused += 1
        return
    tally.rows += len(changes.added)


def fuzzers(scratch: Path) -> dict[str, Fuzz]:
    """A fuzzer for each decoder; ``scratch`` holds what they need."""
    registry = scratch / "registry"
    registry.mkdir()
    (registry / "1.avsc").write_text(json.dumps(inputs.AVRO))
    protobuf = ProtobufSource(inputs.protobuf_files(), "p.R")
    avro = {"c": "String", **COLUMNS}
    by_file, by_id = AvroSource(json.dumps(inputs.AVRO)), AvroSource(registry=str(registry))
    head = b"\0\0\0\0\1"
    names = tuple(COLUMNS)
    csv = CsvOptions(header=False, names=names)
    message: dict[str, tuple[Callable[[Chance], bytes], dict[str, Any]]] = {
        "json": (inputs.json_record, {}),
        "json-frame": (inputs.framed(inputs.json_record, head), {"frame": "confluent"}),
        "csv": (inputs.csv_record, {"format": "csv", "csv": csv}),
        "avro": (inputs.avro_record, {"format": "avro", "avro": by_file}),
        "avro-frame": (inputs.framed(inputs.avro_record, head), {"format": "avro", "avro": by_id}),
        "protobuf": (inputs.protobuf_record, {"format": "protobuf", "protobuf": protobuf, "binary_as_text": True}),
        "protobuf-frame": (inputs.framed(inputs.protobuf_record, head + b"\0"),
                           {"format": "protobuf", "protobuf": protobuf, "binary_as_text": True, "frame": "confluent"}),
    }  # fmt: skip
    found = {name: _messages(record, kafka, avro, _specs(name)) for name, (record, kafka) in message.items()}
    found["raw"] = _messages(
        inputs.raw_record, {"format": "raw"}, {"v": "long", "w": "Instant"}, (ColumnSpec("w", unit="ms"),)
    )
    keys = {"key_format": "json", "format": "raw"}
    found["key"] = _messages(
        inputs.json_record, keys, {"v": "String", "a": "int"}, (ColumnSpec("a", source="a", of="key"),)
    )
    columns = {"c": "String", **dict.fromkeys(HEADERS, "String")}
    headers = [ColumnSpec(name, meta=f"{HEADER}{header}") for name, header in HEADERS.items()]
    found["header"] = _messages(inputs.json_record, {}, columns, headers)
    found["json-file"] = _files(_lines(inputs.json_record, b""), FilesOptions("/f", "json"), "a.json")
    found["csv-file"] = _files(
        _lines(inputs.csv_record, ",".join(names).encode() + b"\n"), FilesOptions("/f", "csv"), "a.csv"
    )
    parquet = FilesOptions("/f", "parquet", binary_as_text=True)
    found["parquet"] = _forked(_files(_parquet_bytes, parquet, "a.parquet"))
    found["delta-log"] = _delta
    return found


def _parquet_bytes(chance: Chance) -> bytes:
    return inputs.mutated(inputs.parquet_file(chance), chance)


def _specs(name: str) -> Sequence[ColumnSpec]:
    if name.startswith("protobuf"):
        return (ColumnSpec("d", far="clamp"), *SPECS[1:])
    return (*SPECS, ColumnSpec("f", form=None)) if name.startswith("avro") else SPECS


def run(count: int, seed: int, only: Sequence[str] = ()) -> dict[str, Tally]:
    """So many inputs for each decoder, or a few more. A defect of a seed comes again with it."""
    tallies: dict[str, Tally] = {}
    with TemporaryDirectory() as place:
        scratch = Path(place)
        for name, fuzz in fuzzers(scratch).items():
            if only and name not in only:
                continue
            tally = tallies[name] = Tally()
            blocks = 0
            while tally.inputs < count:
                blocks += 1
                try:
                    fuzz(random.Random(f"{name} {seed} {blocks}"), scratch, tally)
                except Exception as error:
                    words = " ".join(f"{type(error).__name__}: {error}".split())
                    tally.defects[f"got out of block {blocks}: {words[:160]}"] += 1
                    tally.inputs += BLOCK
    return tallies


def main(words: Sequence[str]) -> int:
    """1 if there is a defect."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--inputs", type=int, default=200_000, help="for each decoder")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="names of decoders, separated by commas")
    given = parser.parse_args(words)
    names = [name for name in given.only.split(",") if name]
    failed = 0
    with TemporaryDirectory() as place:
        chosen = names or list(fuzzers(Path(place)))
    for name in chosen:
        began = time.monotonic()
        tally = run(given.inputs, given.seed, [name])[name]
        print(f"{name}: {tally}, {time.monotonic() - began:.0f} s", flush=True)
        for what, times in tally.defects.most_common(20):
            print(f"  {times:,} x {what}", flush=True)
        failed += bool(tally.defects)
    print(f"fuzz-decoders: {'failed' if failed else 'passed'}: {len(chosen)} decoders, {given.inputs:,} inputs each")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

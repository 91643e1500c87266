"""Avro payloads as records: one a message, by a schema file or by the id that the payload begins with.

With a registry a payload is a zero byte, the id of its schema in four bytes (big-endian), and the record;
``ingest.formats.avro.registry`` finds the schema. ``ingest.formats.binary_records`` makes rows of them.

The compiled scanner reads the fields of a schema one after the other. It has no way for (ValueError): lists, maps,
unions of more than one type and null, records that may be null, and logical types but for times, dates and instants.
Then all payloads of the schema go to the exact pass.
"""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from time import monotonic
from typing import Any, Literal

import fastavro
from fastavro.read import LOGICAL_READERS

from sparkhaven.ingest.formats.avro.payload_proof import (
    Check,
    as_record,
    check_payload,
    checker,
    fields_in,
    with_own_names,
)
from sparkhaven.ingest.formats.avro.registry import NO_SCHEMA, Registry, Schema, kept_registry
from sparkhaven.ingest.formats.binary_records import (
    HEAD,
    SINGLE_OBJECT,
    NotARecordError,
    from_binary,
    schema_id,
    shown_value,
)
from sparkhaven.ingest.formats.json.field_paths import Path, Tree, path_of, tree_of, unknown_names, value_at
from sparkhaven.ingest.formats.scan import NO_UNION, RecordScanner, ScannerCache, WireField
from sparkhaven.ingest.spec import AvroSource, MissingColumns, Target
from sparkhaven.ingest.values.typed_rows import Refusal, Value
from sparkhaven.store.errors import SettingsError
from sparkhaven.store.native.abi import (
    WIRE_BOOLEAN,
    WIRE_BYTES,
    WIRE_DOUBLE,
    WIRE_ENUM,
    WIRE_FIXED,
    WIRE_FLOAT,
    WIRE_INT,
    WIRE_LONG,
    WIRE_NULL,
    WIRE_STRING,
)
from sparkhaven.store.quarantine.rejected_rows import Reason

_KINDS = {
    "null": WIRE_NULL,
    "boolean": WIRE_BOOLEAN,
    "int": WIRE_INT,
    "long": WIRE_LONG,
    "float": WIRE_FLOAT,
    "double": WIRE_DOUBLE,
    "string": WIRE_STRING,
    "bytes": WIRE_BYTES,
}
_INSTANTS: Mapping[str, Literal["ns", "us", "ms"]] = {
    "long-sparkhaven-timestamp-millis": "ms",
    "long-sparkhaven-timestamp-micros": "us",
    "long-sparkhaven-timestamp-nanos": "ns",
}
_COUNTS = ("date", "time-millis", "time-micros", *(f"local-timestamp-{unit}" for unit in ("millis", "micros", "nanos")))
_PASSED = frozenset(f"{kind}-sparkhaven-{name}" for kind in ("int", "long") for name in _COUNTS)


def avro_scanner(
    schema: Schema, targets: Sequence[Target], paths: Sequence[Path], tree: Tree, prefix: bytes
) -> RecordScanner:
    """The scanner for records of this schema behind ``prefix``; ValueError where there is none."""
    always: list[str] = []
    if not targets or not isinstance(schema, Mapping) or schema.get("type") != "record":
        raise ValueError("no fields of a record")
    fields = list(_fields(schema, tree, (), always))
    missing = set(paths) - {field.path for field in fields}
    if any(fields_in(schema, path) is None for path in missing):
        raise ValueError("a field is there, in a way that we do not read")
    fields += [WireField(WIRE_NULL, path) for path in sorted(missing)]
    return RecordScanner("sh_avro_scan", targets, paths, fields, prefix=prefix, always=always)


def _fields(record: Mapping[str, Any], tree: Tree, prefix: Path, always: list[str]) -> Iterator[WireField]:
    """Those of a record in its order, with the fields of the records in it. ``always`` gets the names to count."""
    for field in record["fields"]:
        name, kind = field["name"], field["type"]
        wanted, path = tree.get(name), (*prefix, name)
        if wanted is None:
            always.append(".".join(path))
            yield from _passed(kind)
        elif wanted:
            if not isinstance(kind, Mapping) or kind["type"] != "record":
                raise ValueError(f"a path leads through {path}")
            yield from _fields(kind, wanted, path, always)
        else:
            yield _value(kind, path)


def _passed(kind: Any) -> Iterator[WireField]:
    """What nobody wants."""
    if isinstance(kind, Mapping) and kind["type"] == "record":
        for field in kind["fields"]:
            yield from _passed(field["type"])
    else:
        yield _value(kind, None)


def _value(kind: Any, path: Path | None) -> WireField:
    nulls = NO_UNION
    if isinstance(kind, list):
        if len(kind) != 2 or kind.count("null") != 1:
            raise ValueError("a union of other types than one and null")
        nulls = kind.index("null")
        kind = kind[1 - nulls]
    attributes: Mapping[str, Any] = kind if isinstance(kind, Mapping) else {"type": kind}
    name = attributes["type"]
    logical = f"{name}-{attributes.get('logicalType')}"
    if logical in LOGICAL_READERS and logical not in _INSTANTS and (path is not None or logical not in _PASSED):
        raise ValueError(f"the logical type {logical}")
    if name == "enum":
        return WireField(WIRE_ENUM, path, nulls, len(attributes["symbols"]))
    if name == "fixed":
        return WireField(WIRE_FIXED, path, nulls, int(attributes["size"]))
    if not isinstance(name, str) or name not in _KINDS:
        raise ValueError(f"the type {name}")
    return WireField(_KINDS[name], path, nulls, unit=_INSTANTS.get(logical, ""))


Record = dict[str, Any]


class AvroRecords:
    """The records of one stream; SettingsError if the schema of a file is none."""

    format = "Avro"
    not_a_record = Reason.NOT_AVRO

    def __init__(
        self,
        targets: Sequence[Target],
        source: AvroSource,
        *,
        alias: bool = False,
        missing: MissingColumns = "fail",
        bytes_too: bool = False,
        compiled: bool = True,
    ) -> None:
        """``bytes_too``: bytes may be texts in UTF-8. Without ``compiled`` no scanner is used."""
        self._targets, self._alias, self._bytes_too = tuple(targets), alias, bytes_too
        self._paths = [path_of(t.source) for t in self._targets]
        self._tree = tree_of(self._paths)
        self._schemas = Schemas(source)
        self._compiled, self._scanners = compiled, ScannerCache(self._scanner_behind)
        if missing == "fail":
            self._schemas.require = self._require_fields
        if source.registry is None:
            for t, path in zip(self._targets, self._paths, strict=True):
                self._require(t, path)

    def _require(self, target: Target, path: Sequence[str]) -> None:
        """SettingsError for a column of whose field the schema knows nothing: it would be null in every row."""
        names = fields_in(self._schemas.of_file, path)
        if names is not None:
            raise SettingsError(
                f"column {target.column.name} has no field in the Avro schema",
                where="feed.avro.schema",
                expected=", ".join(sorted(names)) or "a record there",
                found=target.source,
                hint="name the field with `from` under [columns], as the schema spells it",
            )

    def _require_fields(self, schema: Schema) -> None:
        """NotARecordError for a schema of a registry that lacks fields of columns: they would be null."""
        lacking = [
            t.source for t, path in zip(self._targets, self._paths, strict=True) if fields_in(schema, path) is not None
        ]
        if lacking:
            raise NotARecordError(f"its schema lacks {', '.join(lacking)}")

    def scanner(self, payload: bytes) -> RecordScanner | None:
        """That of the schema of this payload."""
        if not self._compiled:
            return None
        try:
            _, start = self._schemas.schema_of(payload)
        except NotARecordError:
            return None
        return self._scanners.of(payload[:start])

    def _scanner_behind(self, prefix: bytes) -> RecordScanner:
        return avro_scanner(self._schemas.schema_of(prefix)[0], self._targets, self._paths, self._tree, prefix)

    def read(self, payload: bytes) -> Record:
        return self._schemas.record(payload)

    def value(self, record: Record, index: int) -> Value | Refusal:
        field = value_at(record, self._paths[index])
        if isinstance(field, Refusal):
            return field
        return from_binary(field, self._targets[index], self._alias, bytes_too=self._bytes_too)

    def shown(self, record: Record, index: int) -> str:
        return shown_value(record.get(self._paths[index][0]))

    def unknown(self, record: Record) -> list[str]:
        return unknown_names(record, self._tree)

    def absent(self, record: Record) -> list[int]:
        return [index for index, path in enumerate(self._paths) if _lacks(record, path)]


def _lacks(record: Record, path: Path) -> bool:
    """Whether the schema of a record has no such field; that of a null is not known."""
    value: Any = record
    for name in path:
        if not isinstance(value, dict):
            return False
        if name not in value:
            return True
        value = value[name]
    return False


class Schemas:
    """The schemas of a source. ``clock`` gives seconds that never go back.

    ``require`` may refuse a schema of a registry, by NotARecordError.
    """

    def __init__(
        self, source: AvroSource, registry: Registry | None = None, clock: Callable[[], float] = monotonic
    ) -> None:
        self._registry, self._clock = registry, clock
        self.require: Callable[[Schema], None] = lambda schema: None
        self._sound: set[int] = set()
        if source.registry is not None:
            self._registry = registry or kept_registry(source.registry)
        else:
            schema = parse_avro(source.schema or "", "feed.avro.schema")
            self._own = schema, checker(schema)
            self._own_head = single_object_head(source.schema or "")

    @property
    def of_file(self) -> Schema:
        """The schema of a source without a registry."""
        return self._own[0]

    def schema_of(self, payload: bytes) -> tuple[Schema, int]:
        """The schema of a payload, and where its record begins. NotARecordError if it names none."""
        schema, _, start = self._schema_of(payload)
        return schema, start

    def record(self, payload: bytes) -> dict[str, Any]:
        schema, check, start = self._schema_of(payload)
        check_payload(check, payload, start)
        stream = io.BytesIO(payload)
        stream.seek(start)
        try:
            record = fastavro.schemaless_reader(stream, schema, None)
        except (EOFError, ValueError, IndexError, OverflowError, KeyError, TypeError, struct.error) as error:
            raise NotARecordError(str(error)[:200] or type(error).__name__) from None
        if not isinstance(record, dict):
            raise NotARecordError("the schema is of no record")
        return record

    def _schema_of(self, payload: bytes) -> tuple[Schema, Check, int]:
        if self._registry is None:
            return *self._own, len(self._own_head) if payload.startswith(self._own_head) else 0
        number = schema_id(payload)
        if number is None:
            raise NotARecordError("it does not begin with a zero byte and the id of its schema")
        schema, check = self._registry.schema(number, self._clock())
        if number not in self._sound:
            self.require(schema)
            self._sound.add(number)
        return schema, check, HEAD.size


def single_object_head(text: str) -> bytes:
    """What Avro's single-object encoding has before each record of a schema, by its JSON text."""
    canonical = fastavro.schema.to_parsing_canonical_form(json.loads(text))
    return SINGLE_OBJECT + bytes.fromhex(fastavro.schema.fingerprint(canonical, "CRC-64-AVRO"))


def parse_avro(text: str, where: str) -> Schema:
    """A schema by its JSON text; SettingsError if it is none."""
    try:
        return fastavro.parse_schema(with_own_names(as_record(json.loads(text))))
    except NO_SCHEMA as error:
        raise SettingsError(
            "no Avro schema", where=where, found=str(error)[:300] or type(error).__name__, expected="an .avsc file"
        ) from None

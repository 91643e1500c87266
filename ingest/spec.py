"""What one stream reads and how its rows become rows of a table: values only, checked once against the schema.

The settings file is parsed elsewhere; here are the frozen parts that decoding and routing work from. They
pickle, so a driver can hand them to its workers.

Also here: how payloads are written, and how much of them a batch may take; what is known of a feed without opening it,
as its name and the kind of its splits; and which of its rows a feed gives to each of several tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal, Protocol

from sparkhaven.store.epochs.state.resume_rules import PartitionRule
from sparkhaven.store.types.model import Column

Format = Literal["json", "csv", "parquet"]
PayloadFormat = Literal["json", "csv", "raw", "avro", "protobuf"]
MissingColumns = Literal["fail", "null"]

UTF8 = "utf-8"
FILES = "files"
RouteKind = Literal["column", "topic"]
Unit = Literal["iso", "d", "s", "ms", "us", "ns"]
Meta = str
"""topic, partition, offset, timestamp, receive_time, key, file, line, or a header of a message: ``header:NAME``."""
HEADER = "header:"
Refused = Literal["quarantine", "fail"]
Late = Literal["supplement", "quarantine", "fail"]
Payload = Literal["value", "key"]
Far = Literal["null", "clamp"]
Contract = Literal["evolve", "freeze", "discard-value", "discard-row"]
"""What becomes of fields that no column takes, and of columns whose field a row lacks.

``evolve``: they are left out, or null, counted and told. ``discard-value``: the same, and not told. ``discard-row``:
the row is rejected. ``freeze``: the batch fails.
"""
STRICT: tuple[Contract, ...] = ("freeze", "discard-row")
DateFormat = Literal["yyyy-MM-dd", "yyyy-MM-dd-HH"]
DAY_S = 86_400.0
DEFAULT_BOUND_S = 30 * DAY_S


@dataclass(frozen=True, slots=True)
class CsvOptions:
    """Dialect of CSV files. ``header`` True takes names from the first line, else ``names`` gives them.

    ``null`` lists the texts that mean null when they are not quoted; quoted, they are ordinary text, unless
    ``quoted_null`` is set. ``skip_lines`` lines at the start of a file are passed over, and so is each line that begins
    with ``comment`` where a record could begin. ``trailing_delimiter``: a record may end with one delimiter more.
    """

    header: bool = True
    names: tuple[str, ...] = ()
    delimiter: str = ","
    quote: str = '"'
    null: tuple[str, ...] = ("",)
    quoted_null: bool = False
    skip_lines: int = 0
    comment: str = ""
    trailing_delimiter: bool = False


@dataclass(frozen=True, slots=True)
class Limit:
    """How much one batch may take; None = no limit. Rows are estimated from bytes before a file is read."""

    bytes: int | None = None
    rows: int | None = None
    files: int | None = None


@dataclass(frozen=True, slots=True)
class AvroSource:
    """Where the schema of Avro payloads comes from: the text of one, or a registry (directory or address) by id.

    An address may hold a password.
    """

    schema: str | None = None
    registry: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class ProtobufSource:
    """The type of Protobuf payloads: a FileDescriptorSet, the name of a message in it, and the file for people."""

    definition: bytes = field(repr=False)
    message: str
    where: str = "feed.protobuf.schema"


PayloadSchema = AvroSource | ProtobufSource


FILE_META: Mapping[str, frozenset[str]] = {
    "file": frozenset({"String"}),
    "line": frozenset({"int", "long"}),
    "timestamp": frozenset({"Instant"}),
    "receive_time": frozenset({"Instant"}),
}
KAFKA_META: Mapping[str, frozenset[str]] = {
    "topic": frozenset({"String"}),
    "partition": frozenset({"short", "int", "long"}),
    "offset": frozenset({"long"}),
    "timestamp": frozenset({"Instant"}),
    "receive_time": frozenset({"Instant"}),
    "key": frozenset({"String"}),
    "header": frozenset({"String"}),
}


@dataclass(frozen=True, slots=True)
class Traits:
    """``feed`` is the row in ``ingest.feeds.registry``, or ``module:attribute``; ``split`` the class of its splits.

    ``unit`` is what progress counts (``files``: splits; anything else: the offsets of ranges). ``meta``: columns that
    the position of a row can fill, with the types that hold them; ``internal``: those that can name internal
    partitions; ``keys``: whether rows have a key beside their value.
    """

    feed: str
    split: type
    unit: str
    meta: Mapping[str, frozenset[str]] = field(default_factory=dict)
    internal: tuple[str, ...] = ()
    keys: bool = False


class FeedOptions(Protocol):
    """The settings of one feed: a frozen value that pickles. ``path`` is what it reads, in messages for people."""

    traits: ClassVar[Traits]

    @property
    def path(self) -> str:
        """What the feed reads."""


@dataclass(frozen=True, slots=True)
class TableRoute:
    """The rows of one table: those whose column, or topic, is one of ``values``; ``rest``: those of no other table."""

    table: str
    values: tuple[str, ...] = ()
    rest: bool = False


@dataclass(frozen=True, slots=True)
class TableRoutes:
    """The tables of a feed, in the order of the stream file. ``own``: the number of the one that a spec is of.

    ``kind``: rows go by the text of a field ``column`` of theirs, or by their topic. ``ignore``: rows of no table are
    left out and counted; otherwise they are bad rows.
    """

    tables: tuple[TableRoute, ...]
    own: int
    kind: RouteKind
    column: str = ""
    ignore: bool = False

    @property
    def rest(self) -> int | None:
        """The table that has the rows of no other."""
        return next((number for number, route in enumerate(self.tables) if route.rest), None)

    @property
    def refusing(self) -> int:
        """The table whose rejected rows have those that no table takes, or that cannot be read: the rest, or first."""
        return self.rest or 0

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(route.table for route in self.tables)

    @property
    def table_of(self) -> Mapping[str, int]:
        """The table of each value."""
        return {value: number for number, route in enumerate(self.tables) for value in route.values}


def header_names(metas: Iterable[Meta | None]) -> tuple[str, ...]:
    """The headers of messages that columns take, each once."""
    return tuple(dict.fromkeys(meta.removeprefix(HEADER) for meta in metas if meta and meta.startswith(HEADER)))


@dataclass(frozen=True, slots=True)
class TextForm:
    """How a column's texts may differ from what is usual; what is not said stays refused.

    ``pattern`` of dates and times as ``strptime`` has them; ``trim`` blanks around a value (one of blanks alone is
    null, but for Strings); ``quoted``: a number, boolean or count of time units may be a JSON string, null if empty;
    ``thousands`` between groups of three digits, ``decimal`` before a fraction; ``true`` and ``false`` the only texts
    (or JSON numbers) that are booleans. ``as_text``: a String takes any value as its text.
    """

    pattern: str | None = None
    trim: bool = False
    quoted: bool = False
    thousands: str = ""
    decimal: str = "."
    true: tuple[str, ...] = ()
    false: tuple[str, ...] = ()
    as_text: bool = False


@dataclass(frozen=True, slots=True)
class ColumnSpec:
    """Where the values of one column come from; only needed where the defaults do not hold.

    ``source`` is the name in the feed (default: the column's own). ``unit`` is that of a count: of an
    Instant or a LocalDate since 1970, of a LocalTime since midnight. For ``iso`` texts of instants without an offset
    ``zone`` tells the time zone; without one they are refused as ambiguous. Both hold for the elements of an array too.
    ``meta`` takes the value from the source position instead of the payload, ``of`` from a message's key. ``far`` is
    what becomes of an instant outside of the range that can be stored: null, or the nearest that can; else a bad row.
    ``lossy``: round to the nearest float or double. Default: a number that is not held exactly is a bad row.
    ``required``: a row without a value is a bad row; None: as the stream says.
    """

    column: str
    source: str | None = None
    unit: Unit = "iso"
    zone: str | None = None
    meta: Meta | None = None
    of: Payload = "value"
    far: Far | None = None
    form: TextForm | None = None
    lossy: bool = False
    required: bool | None = None

    @property
    def reading(self) -> dict[str, str]:
        """What decides which value a row has, by name: only what is not as usual."""
        pattern = None if self.form is None else self.form.pattern
        taken = {"from": self.source, "unit": self.unit, "zone": self.zone, "meta": self.meta, "format": pattern}
        usual = {"from": self.column, "unit": "iso"}
        key = {"of": self.of} if self.of != "value" else {}
        return key | {name: text for name, text in taken.items() if text not in (None, usual.get(name))}


@dataclass(frozen=True, slots=True)
class InternalRule:
    """Where the internal partition comes from: a column's value, a fixed name, or a part of the position."""

    kind: Literal["column", "fixed", "meta"]
    name: str


@dataclass(frozen=True, slots=True)
class ValueRule:
    """Where the column partition comes from: the local day or hour of an instant, or one fixed value.

    ``column`` is an Instant column, or a long column with ``unit`` s, ms, us or ns.
    """

    column: str | None = None
    zone: str = "UTC"
    format: DateFormat = "yyyy-MM-dd"
    unit: Unit | None = None
    fixed: str | None = None

    @property
    def settings(self) -> dict[str, str]:
        """What is set, by name."""
        if self.fixed is not None:
            return {"fixed": self.fixed}
        unit = {} if self.unit is None else {"unit": self.unit}
        return {"column": str(self.column), "zone": self.zone, "format": self.format, **unit}


@dataclass(frozen=True, slots=True)
class Clock:
    """What the bounds are measured from: the wall clock, the newest instant of the batch, or a fixed time (ns)."""

    kind: Literal["wall", "batch", "fixed"] = "wall"
    at_ns: int | None = None

    def now_ns(self, seconds: Callable[[], float]) -> int:
        """The fixed time, else that of ``seconds``, a wall clock; of "batch" where its rows say nothing."""
        return round(seconds() * 1e9) if self.at_ns is None else self.at_ns


@dataclass(frozen=True, slots=True)
class PartitionSpec:
    """Routing of rows to locations, with bounds in seconds around the clock.

    ``bounds``: what becomes of a row whose date is null or out of bounds; ``late``: of one whose date was truncated.
    With ``supplement`` it goes to a new location of the date, which the next merge adds to history.
    """

    internal: InternalRule
    value: ValueRule
    clock: Clock = field(default_factory=Clock)
    max_past_s: float = DEFAULT_BOUND_S
    max_future_s: float = DEFAULT_BOUND_S
    bounds: Refused = "quarantine"
    late: Late = "supplement"

    @property
    def takes_late(self) -> bool:
        """Whether rows for a truncated date are stored, and not rejected."""
        return self.late == "supplement"


@dataclass(frozen=True, slots=True)
class BadRowBudget:
    """How many rows may be rejected: at most ``max_rows`` of a batch, and ``max_fraction`` of all within an hour.

    The fraction applies from ``min_rows`` rows on: of few rows, one bad row is a large fraction.
    """

    max_rows: int = 1000
    max_fraction: float = 0.01
    min_rows: int = 1000

    @property
    def allows_any(self) -> bool:
        """Whether rejected rows may go to quarantine; else the first one stops its batch."""
        return self.max_rows > 0 and self.max_fraction > 0


NO_BAD_ROWS = BadRowBudget(max_rows=0, max_fraction=0.0)


@dataclass(frozen=True, slots=True)
class StreamSpec:
    """One stream: options of its feed, columns, routing, budget. ``ignore`` names fields that are not stored.

    ``routes``: the feed has rows of several tables, and this one is of one of them. ``required``: columns that do not
    say otherwise need a value, but for those that are not taken from fields.
    """

    stream: str
    table: str
    feed: FeedOptions
    partition: PartitionSpec
    columns: tuple[ColumnSpec, ...] = ()
    ignore: tuple[str, ...] = ()
    bad_rows: BadRowBudget = field(default_factory=BadRowBudget)
    allow_null_alias: bool = False
    routes: TableRoutes | None = None
    required: bool = False
    contract: Contract = "evolve"

    @property
    def strict(self) -> bool:
        """Whether rows with other fields than the columns are refused."""
        return self.contract in STRICT

    @property
    def rule(self) -> PartitionRule:
        """What decides where a row goes. Bounds do not: they tell which rows are taken."""
        internal, value = self.partition.internal, self.partition.value
        settings = {f"internal.{internal.kind}": internal.name}
        settings |= {f"value.{name}": text for name, text in value.settings.items()}
        deciding = {internal.name if internal.kind == "column" else None, value.column}
        for spec in self.columns:
            if spec.column in deciding:
                settings |= {f"columns.{spec.column}.{name}": text for name, text in spec.reading.items()}
            if settings.get("internal.column") == spec.column and spec.form is not None and spec.form.trim:
                settings[f"columns.{spec.column}.trim"] = "true"
        return PartitionRule(settings)

    @property
    def fed_tables(self) -> tuple[str, ...]:
        """The tables of the feed, in the order in which they commit."""
        return (self.table,) if self.routes is None else self.routes.names


@dataclass(frozen=True, slots=True)
class Target:
    """One column to decode: a stored column, or a field that only routing needs (``stored`` False)."""

    column: Column
    source: str
    unit: Unit
    zone: str | None
    meta: Meta | None
    stored: bool
    of: Payload = "value"
    far: Far | None = None
    form: TextForm | None = None
    lossy: bool = False
    required: bool = False

    @property
    def as_text(self) -> bool:
        """Whether a String takes the text of a value that is no string."""
        return self.form is not None and self.form.as_text

"""How payloads are written, and how much of them a batch may take: what feeds of several kinds have in common.

Also here: what is known of a feed without opening it, as its name and the kind of its splits.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal, Protocol

Format = Literal["json", "csv", "parquet"]
PayloadFormat = Literal["json", "csv", "raw", "avro", "protobuf"]
MissingColumns = Literal["fail", "null"]

UTF8 = "utf-8"


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
FILES = "files"


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

"""The options of ``jobs.dataframes.frame_writer``, checked like those of a stream file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict, Unpack

from pydantic import ValidationError

from sparkhaven.ingest.feeds.frames import FramesOptions
from sparkhaven.ingest.feeds.registry import feed_of
from sparkhaven.ingest.settings import SettingsModel
from sparkhaven.ingest.spec import NO_BAD_ROWS, StreamSpec
from sparkhaven.jobs.settings.faults import translate
from sparkhaven.jobs.settings.keywords import refuse_keywords
from sparkhaven.jobs.settings.stream_file import partition_of
from sparkhaven.jobs.settings.stream_model import BadRowsModel, CommitModel, PartitionModel
from sparkhaven.store.epochs.state.commit_policy import DEFAULTS, CommitPolicy
from sparkhaven.store.errors import InvalidNameError, SettingsError
from sparkhaven.store.io.local_path import local_path
from sparkhaven.store.layout import Layout, TableName, check_stream
from sparkhaven.writers.spark.frame_task import PositionColumns

Rule = str | Mapping[str, Any]


class FrameModel(SettingsModel):
    """The tables of a stream file that have options of the same meaning."""

    partition: PartitionModel
    bad_rows: BadRowsModel | None
    commit: CommitModel
    ignore: list[str]
    lossy: list[str] | bool
    allow_gap: bool
    adopt: bool
    accept_rule: bool


@dataclass(frozen=True, slots=True)
class FrameOptions:
    """Checked options of a writer of frames. ``quarantine`` None: the first bad row stops its batch."""

    root: Path
    table: TableName
    spec: StreamSpec
    schema: Path | bytes | None
    positions: PositionColumns | None
    policy: CommitPolicy
    keep_epochs: int
    quarantine: Path | None
    adopt: bool
    accept_rule: bool

    @property
    def stream(self) -> str:
        return self.spec.stream

    @property
    def allow_gap(self) -> bool:
        """Whether offsets between batches may be missing."""
        return feed_of(self.spec).resume.allow_gap


class RuleKeywords(TypedDict):
    """The two rules that route rows."""

    internal: Rule
    value: Rule


class FrameKeywords(RuleKeywords, total=False):
    """How rows of frames become epochs: the keywords of ``Table.append``, ``deephaven_writer`` and ``write_frame``.

    ``internal`` and ``value`` route the rows, as ``[partition]`` of a stream file does, and have to be given. Each is a
    column's name, or a table like ``{"fixed": "a"}`` or ``{"column": "time", "zone": "America/New_York"}``. ``bounds``
    has its other keys (``max_past``, ``max_future``, ``clock``, ``late``).

    ``schema``: a file or its bytes, deployed at the first batch; default: the deployed one. ``positions``: the columns
    ``{"partition": ..., "offset": ..., "topic": ...}`` that say where a row comes from. ``durability``: ``fsync``,
    ``periodic`` or ``none``. ``ignore``: columns that the table lacks. ``lossy``: columns that take the nearest float
    or double, True for all. ``bad_rows``: the keys of ``[bad_rows]``. ``keep_epochs``: epochs that can be rolled back
    to. ``allow_gap``: offsets may be missing. ``adopt``: for one start, the query begins where another one ended.
    ``accept_rule``: take another rule for new rows.
    """

    schema: str | Path | bytes | None
    positions: Mapping[str, str] | None
    durability: str
    ignore: Iterable[str]
    bounds: Mapping[str, Any] | None
    bad_rows: Mapping[str, Any] | None
    keep_epochs: int
    allow_gap: bool
    adopt: bool
    accept_rule: bool
    lossy: Iterable[str] | bool


def frame_options(root: str | Path, table: str, stream: str, **given: Unpack[FrameKeywords]) -> FrameOptions:
    """The options of a writer of frames; SettingsError or InvalidNameError for wrong ones."""
    for noun, name in (("table", table), ("stream", stream)):
        if not isinstance(name, str):
            raise InvalidNameError(f"the name of a {noun} is not a text", found=repr(name))
    where = Path(f"stream {check_stream(stream)}")
    refuse_keywords("a writer of frames", given, FrameKeywords, types=False)  # the model looks at the values
    ignore, lossy, schema = given.get("ignore", ()), given.get("lossy", ()), given.get("schema")
    for option, names in (("ignore", ignore), ("lossy", lossy)):
        if isinstance(names, str):
            message = f"{option} is not a list of columns"
            raise SettingsError(message, where=where, expected=f"[{names!r}]", found=repr(names))
    bounds, bad_rows = given.get("bounds"), given.get("bad_rows")
    bound_options = _table("bounds", bounds or {}, where)
    if bound_options.keys() & {"internal", "value"}:
        raise SettingsError("bounds has the keys internal or value", where=where, found=f"bounds = {bounds!r}")
    raw = {
        "partition": {**bound_options, "internal": _rule(given["internal"]), "value": _rule(given["value"])},
        "bad_rows": None if bad_rows is None else _table("bad_rows", bad_rows, where),
        "commit": {
            "durability": given.get("durability", "fsync"),
            "keep_epochs": given.get("keep_epochs", DEFAULTS.keep_epochs),
        },
        "ignore": list(ignore),
        "lossy": lossy if isinstance(lossy, bool) else list(lossy),
        **{name: given.get(name, False) for name in ("allow_gap", "adopt", "accept_rule")},
    }
    try:
        model = FrameModel.model_validate(raw)
    except ValidationError as error:
        raise translate(error, raw, where) from None
    spec, bad, quarantine = _spec(model, table, stream), model.bad_rows, None
    if bad is not None and spec.bad_rows.allows_any:
        default = Layout(local_path(root)).quarantine(stream)
        quarantine = default if bad.quarantine is None else local_path(bad.quarantine).absolute()
    return FrameOptions(
        local_path(root),
        TableName.parse(table),
        spec,
        schema if isinstance(schema, bytes | None) else local_path(schema),
        _positions(given.get("positions"), where),
        model.commit.policy,
        model.commit.keep_epochs,
        quarantine,
        model.adopt,
        model.accept_rule,
    )


def _spec(model: FrameModel, table: str, stream: str) -> StreamSpec:
    bad = model.bad_rows
    return StreamSpec(
        stream,
        str(TableName.parse(table)),
        FramesOptions(model.allow_gap, model.lossy if isinstance(model.lossy, bool) else tuple(model.lossy)),
        partition_of(model.partition),
        ignore=tuple(model.ignore),
        bad_rows=NO_BAD_ROWS if bad is None else bad.budget,
        allow_null_alias=bad is not None and bad.allow_null_alias,
    )


def _rule(rule: Rule) -> object:
    return {"column": rule} if isinstance(rule, str) else dict(rule) if isinstance(rule, Mapping) else rule


def _table(name: str, options: object, where: Path) -> dict[str, Any]:
    if not isinstance(options, Mapping):
        raise SettingsError(f"{name} is not a table of options", where=where, found=repr(options))
    return {key: str(option) if isinstance(option, Path) else option for key, option in options.items()}


def _positions(positions: Mapping[str, str] | None, where: Path) -> PositionColumns | None:
    if positions is None:
        return None
    columns = dict(positions) if isinstance(positions, Mapping) else {}
    names = [name for name in columns.values() if isinstance(name, str) and name]
    allowed = {"partition", "offset"} <= columns.keys() <= {"partition", "offset", "topic"}
    if not allowed or len(set(names)) < len(columns):
        raise SettingsError(
            "positions lack the column of the topic partition or of the offset",
            where=where,
            expected='columns for "partition" and "offset", and for "topic" where there are several, each another'
            " column",
            found=repr(positions),
        )
    return PositionColumns(**columns)

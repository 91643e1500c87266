"""The stream file: TOML to the checked, frozen settings of ingest and the writers.

Relative paths are relative to the file. ``${NAME}`` is taken from the environment, in values only and after
the TOML is parsed, so a secret can never change the structure of the file; messages show the text as written.

Of several files an error keeps only its own stream from starting.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from sparkhaven.ingest.feeds.base import PlannedFeed, one_table_only
from sparkhaven.ingest.feeds.registry import is_foreign, planned_class, planned_feed
from sparkhaven.ingest.settings import beside
from sparkhaven.ingest.spec import (
    Clock,
    ColumnSpec,
    FeedOptions,
    InternalRule,
    PartitionSpec,
    StreamSpec,
    TableRoutes,
    TextForm,
    ValueRule,
)
from sparkhaven.jobs.settings.faults import translate
from sparkhaven.jobs.settings.stream_model import (
    ColumnModel,
    PartitionModel,
    StreamModel,
    TableModel,
    TablesModel,
    ValueModel,
    refuse_both,
    routes_of,
    stream_model,
    tables_model,
)
from sparkhaven.store.epochs.state.commit_policy import CommitPolicy
from sparkhaven.store.epochs.state.resume_rules import STREAM, TABLE
from sparkhaven.store.errors import InvalidNameError, SettingsError, SparkhavenError, as_ours, replaced
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import TableName, check_stream

SHORT = 3  # characters of a value below which it is only hidden as a whole text
_NAME = re.compile(r"\$\$\{|\$\{([^}]*)\}")  # the first is no name
_NAME_FORM = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StreamSettings:
    """One stream file, checked. ``trigger_s`` in seconds; ``quarantine`` None: the default place.

    ``logs``: the stream writes to the log tables.
    """

    file: Path
    spec: StreamSpec
    table: TableName
    schema_file: Path
    policy: CommitPolicy
    keep_epochs: int
    trigger_s: float
    quarantine: Path | None
    logs: bool = True

    @property
    def feed(self) -> PlannedFeed[Any, Any]:
        return planned_feed(self.spec)


@dataclass(frozen=True, slots=True)
class NotStarted:
    """A stream file whose stream could not start, and why; ``name`` and ``table``, if they are known."""

    file: Path
    error: Exception
    name: str | None = None
    table: str = ""

    @property
    def label(self) -> str:
        """The name of the stream, else of its file."""
        return self.name or str(self.file)


def load_stream_file(fs: Fs, path: Path, environ: Mapping[str, str]) -> StreamSettings:
    """Reads and checks a stream file of one table; one SettingsError reports all of its faults."""
    return _only(load_stream_tables(fs, path, environ))


def load_stream_tables(fs: Fs, path: Path, environ: Mapping[str, str]) -> tuple[StreamSettings, ...]:
    """Reads and checks a stream file; the settings of each of its tables, in the order in which they commit."""
    raw = read_toml(fs, path, hint="name a TOML file, like those in conf/streams")
    return parse_tables(raw, path, environ, fs)


def load_streams(files: Iterable[Path]) -> tuple[list[StreamSettings], list[NotStarted]]:
    """The settings of every valid file, one for each of its tables. Of files with the same stream none is used."""
    loaded: list[StreamSettings] = []
    failed: list[NotStarted] = []
    for path in dict.fromkeys(files):
        try:
            loaded += load_stream_tables(Fs(), path, os.environ)
        except (SparkhavenError, OSError) as error:
            failed.append(NotStarted(path, as_ours(error)))
    by_stream: dict[tuple[str, str], list[StreamSettings]] = {}
    for settings in loaded:
        by_stream.setdefault((settings.spec.table, settings.spec.stream), []).append(settings)
    for (table, stream), same in by_stream.items():
        if len(same) > 1:
            others = ", ".join(str(settings.file) for settings in same[:-1])
            double = SettingsError(
                f"two files describe stream {stream} of {table}",
                where=same[-1].file,
                found=f"the same in {others}",
                hint="give each stream its own name",
            )
            failed.append(NotStarted(same[-1].file, double, stream, table))
    double_files = {settings.file for same in by_stream.values() if len(same) > 1 for settings in same}
    return [settings for settings in loaded if settings.file not in double_files], failed


def try_each(
    streams: Sequence[StreamSettings], step: Callable[[StreamSettings], T]
) -> tuple[list[T], list[NotStarted]]:
    """The results of ``step`` for each stream, and the streams that it fails for."""
    results: list[T] = []
    failed: list[NotStarted] = []
    for settings in streams:
        try:
            results.append(step(settings))
        except (SparkhavenError, OSError) as error:
            name_stream(error, settings)
            failed.append(NotStarted(settings.file, as_ours(error), settings.spec.stream, settings.spec.table))
    return results, failed


def name_stream(error: Exception, settings: StreamSettings) -> None:
    """Puts table and stream into the commands that an error of its feed tells to run; a feed knows neither."""
    if isinstance(error, SparkhavenError) and error.hint is not None:
        error.hint = error.hint.replace(f"{TABLE} {STREAM}", f"{settings.spec.table} {settings.spec.stream}")


def read_toml(fs: Fs, path: Path, **advice: str) -> dict[str, object]:
    """The tables of a stream file. SettingsError for what is no TOML file, with ``advice`` where there is no file."""
    stat = fs.stat(path)
    if stat is None or stat.is_dir:
        missing = "no such stream file" if stat is None else "the stream file is a directory"
        raise SettingsError(missing, where=path, **advice)
    try:
        return tomllib.loads(fs.read(path).decode("utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError("stream file is not TOML", where=path, found=str(error)) from None


def parse_stream(raw: dict[str, Any], path: Path, environ: Mapping[str, str], fs: Fs | None = None) -> StreamSettings:
    """The settings of a parsed TOML tree of one table; ``path`` is the file that relative paths start from."""
    return _only(parse_tables(raw, path, environ, fs))


def _only(tables: tuple[StreamSettings, ...]) -> StreamSettings:
    if len(tables) > 1:
        raise SettingsError(
            "the stream file has several tables",
            where=tables[0].file,
            expected="a file of one table",
            found=", ".join(settings.spec.table for settings in tables),
            hint="name a stream file of one table",
        )
    return tables[0]


def parse_tables(
    tree: Mapping[str, object], path: Path, environ: Mapping[str, str], fs: Fs | None = None
) -> tuple[StreamSettings, ...]:
    """Checks a parsed stream file; the settings of each of its tables, in the order in which they commit."""
    raw = dict(tree)
    refuse_both(raw, path)
    try:
        filled = fill_environment(raw, environ)
    except KeyError as error:
        raise SettingsError(
            f"${{{error.args[0]}}} is not set in the environment",
            where=path,
            hint=f"export {error.args[0]}=..., or write the value. Write $${{ for the text ${{",
        ) from None
    with as_in_file(raw, environ):
        several, foreign = "tables" in raw, _foreign_feed(raw, path)
        kind: type[StreamModel | TablesModel] = tables_model(foreign) if several else stream_model(foreign)
        try:
            model = kind.model_validate(_lifted(filled, path))
        except ValidationError as error:
            raise translate(error, _lifted(raw, path), path, TablesModel if several else StreamModel) from None
        with names_of(path):
            return _settings(model, path, fs or Fs())


@contextmanager
def as_in_file(raw: dict[str, Any], environ: Mapping[str, str]) -> Iterator[None]:
    """Shows ``${NAME}`` in errors instead of its value, which may be a secret."""
    names = named_in(raw)
    try:
        yield
    except (InvalidNameError, SettingsError) as error:
        texts = {"what": error.what, "where": error.where, "expected": error.expected, "found": error.found}
        texts |= {"hint": error.hint, **error.extra}
        shown = {
            key: as_written(text, environ, names) if isinstance(text, str) else text for key, text in texts.items()
        }
        raise type(error)(str(shown.pop("what")), **shown) from None


@contextmanager
def names_of(path: Path) -> Iterator[None]:
    """Adds the file to an InvalidNameError."""
    try:
        yield
    except InvalidNameError as error:
        raise replaced(error, where=path) from None


def _foreign_feed(raw: Mapping[str, Any], path: Path) -> str | None:
    """The class that ``feed.type`` names, as it is written: the environment never names code to load."""
    feed = raw.get("feed")
    name = feed.get("type") if isinstance(feed, Mapping) else None
    if not isinstance(name, str) or not is_foreign(name):
        return None
    try:
        planned_class(name)
    except SettingsError as error:
        raise replaced(error, where=f"{path}: {error.where}") from error
    return name


def _settings(model: StreamModel | TablesModel, path: Path, fs: Fs) -> tuple[StreamSettings, ...]:
    kind = str(model.feed.type)  # type: ignore[attr-defined]  # every model of a feed has it
    feed = planned_class(kind)
    options = feed.read(model.feed, path.absolute().parent, fs)
    if isinstance(model, StreamModel):
        return (_of_table(model, model, options, None, path),)
    if feed.decode_tables is PlannedFeed.decode_tables:
        raise replaced(one_table_only(kind), where=f"{path}: tables")
    routes = routes_of(model, options, path)
    return tuple(
        _of_table(model, table, options, replace(routes, own=number), path) for number, table in enumerate(model.tables)
    )


def _of_table(
    model: StreamModel | TablesModel,
    table: StreamModel | TableModel,
    options: FeedOptions,
    routes: TableRoutes | None,
    path: Path,
) -> StreamSettings:
    base, keys = path.absolute().parent, options.traits.keys
    columns = tuple(_column(name, entry, path, keys=keys) for name, entry in table.columns.items())
    spec = StreamSpec(
        stream=check_stream(model.name),
        table=str(TableName.parse(table.table)),
        feed=options,
        partition=partition_of(table.partition),
        columns=columns,
        ignore=tuple(table.ignore),
        required=table.required,
        contract=(table.contract or model.contract).columns,
        bad_rows=model.bad_rows.budget,
        allow_null_alias=model.bad_rows.allow_null_alias,
        routes=routes,
    )
    quarantine = model.bad_rows.quarantine
    return StreamSettings(
        file=path,
        spec=spec,
        table=TableName.parse(table.table),
        schema_file=beside(base, table.deployed_from),
        policy=model.commit.policy,
        keep_epochs=model.commit.keep_epochs,
        trigger_s=model.commit.trigger,
        quarantine=None if quarantine is None else beside(base, quarantine),
        logs=model.logs.enabled,
    )


def _column(name: str, entry: ColumnModel, path: Path, *, keys: bool) -> ColumnSpec:
    if entry.key is None:
        return _spec(name, entry.source, entry, meta=entry.meta)
    if not keys:
        raise SettingsError(
            "a feed without messages has a setting for keys",
            where=f"{path}: columns.{name}.key",
            found=entry.key,
            hint="name a field of the row with `from`",
        )
    return _spec(name, entry.key, entry, of="key")


def _spec(name: str, source: str | None, entry: ColumnModel, **where: Any) -> ColumnSpec:
    unit, form = entry.unit or "iso", _form(entry)
    return ColumnSpec(
        name, source, unit, entry.zone, far=entry.far, form=form, lossy=entry.lossy, required=entry.required, **where
    )


def _form(entry: ColumnModel) -> TextForm | None:
    form = TextForm(
        pattern=entry.format,
        trim=entry.trim,
        quoted=entry.quoted,
        thousands=entry.thousands or "",
        decimal=entry.decimal or ".",
        true=tuple(entry.true or ()),
        false=tuple(entry.false or ()),
        as_text=entry.as_text,
    )
    return None if form == TextForm() else form


def partition_of(model: PartitionModel) -> PartitionSpec:
    internal = model.internal
    if internal.column is not None:
        rule = InternalRule("column", internal.column)
    elif internal.meta is not None:
        rule = InternalRule("meta", internal.meta)
    else:
        rule = InternalRule("fixed", str(internal.fixed))
    clock = Clock(model.clock) if isinstance(model.clock, str) else Clock("fixed", model.clock)
    return PartitionSpec(rule, _value(model.value), clock, model.max_past, model.max_future, model.bounds, model.late)


def _value(model: ValueModel) -> ValueRule:
    if model.fixed is not None:
        return ValueRule(fixed=model.fixed)
    return ValueRule(model.column, model.zone or "UTC", model.format or "yyyy-MM-dd", model.unit)


def _lifted(raw: dict[str, Any], path: Path) -> dict[str, Any]:
    """``ignore``, ``required`` and ``contract`` stand among the columns; the model has them beside these, also in
    ``[[tables]]``. A column of such a name is a table with other keys.
    """
    tables = raw.get("tables")
    if isinstance(tables, list):
        raw = {**raw, "tables": [_lifted(table, path) if isinstance(table, dict) else table for table in tables]}
    columns = raw.get("columns")
    if not isinstance(columns, dict):
        return raw
    lifted: dict[str, Any] = {}
    for name in ("ignore", "required"):
        if name in columns and not isinstance(columns[name], dict):
            lifted[name] = f"columns.{name}"
    if isinstance(columns.get("contract"), dict) and columns["contract"].keys() == {"columns"}:
        lifted["contract"] = "contract"
        if "contract" in raw:
            raise SettingsError(
                "the contract of a stream is given twice",
                where=f"{path}: columns.contract",
                expected="one contract, above the first table or in [columns]",
                found="both",
                hint="remove one of them",
            )
    rest = {name: entry for name, entry in columns.items() if name not in lifted}
    return {**raw, "columns": rest, **{key: columns[name] for name, key in lifted.items()}}


def fill_environment(node: Any, environ: Mapping[str, str]) -> Any:
    """The tree with ``${NAME}`` in text values replaced; ``$${`` stands for ``${``. Keys stay as they are.

    A name that is not set, or that is no name, is a KeyError with that name.
    """
    if isinstance(node, str):
        return _NAME.sub(lambda match: _filled(match, environ), node)
    if isinstance(node, dict):
        return {key: fill_environment(child, environ) for key, child in node.items()}
    if isinstance(node, list):
        return [fill_environment(child, environ) for child in node]
    return node


def named_in(node: Any) -> set[str]:
    """The names of the environment that text values of a tree take."""
    if isinstance(node, str):
        return {match[1] for match in _NAME.finditer(node) if match[1] is not None}
    if isinstance(node, dict):
        return set().union(*map(named_in, node.values()))
    return set().union(*map(named_in, node)) if isinstance(node, list) else set()


def as_written(text: str | None, environ: Mapping[str, str], names: set[str]) -> str | None:
    """A message with ``${NAME}`` in place of the value of that name."""
    for name in sorted(names, key=lambda name: -len(environ.get(name, ""))):
        value = environ.get(name, "")
        if text is not None and value and (text == value or len(value) >= SHORT):
            text = text.replace(value, f"${{{name}}}")
    return text


def _filled(match: re.Match[str], environ: Mapping[str, str]) -> str:
    name = match[1]
    if name is None:
        return "${"
    if not _NAME_FORM.match(name):
        raise KeyError(name)
    return environ[name]

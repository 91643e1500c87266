"""A schema that somebody wrote or corrected, against a sample: the field of each column, and the settings for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from sparkhaven.ingest.formats.json.field_paths import path_of
from sparkhaven.ingest.inference.column_type import choose, readings_of
from sparkhaven.ingest.inference.field_facts import ColumnSettings, Reading, column_names, facts_of, misfit, misfits
from sparkhaven.ingest.inference.proposal import POSITION, FieldColumn, with_nulls
from sparkhaven.ingest.sample_rows import Sample, shown
from sparkhaven.ingest.spec import Meta, TextForm
from sparkhaven.ingest.targets import near_name
from sparkhaven.store.errors import SchemaMismatchError, listed
from sparkhaven.store.types.model import Column, Storage, TableSchema


@dataclass(frozen=True, slots=True)
class Fitted:
    """One column: the field and reading, or what of the position it takes, or the settings that were there already."""

    column: Column
    source: str | None = None
    reading: Reading | None = None
    meta: Meta | None = None
    given: ColumnSettings | None = None
    bad: int = 0
    """Values of the sample that no reading takes."""


@dataclass(frozen=True, slots=True)
class Fit:
    """All columns of a schema. ``ignored`` are the fields that none takes, as ``ignore`` names them."""

    sample: Sample
    columns: tuple[Fitted, ...]
    ignored: tuple[str, ...]
    candidates: tuple[FieldColumn, ...]


def fit_schema(schema: TableSchema, sample: Sample, column_settings: Mapping[str, ColumnSettings], zone: str) -> Fit:
    """The columns of a schema by the fields of a sample; ``column_settings``, ``[columns]`` of a stream file, stay.

    SchemaMismatchError for a column that no field fills, or whose type does not take the values of its field.
    """
    sample = with_nulls(sample, zone)
    partitioning = "" if schema.partitioning is None else schema.partitioning.name
    taken = [partitioning, *(name for name, _, _ in POSITION)] if sample.messages else [partitioning]
    by_name = {name: source for source, name in column_names(sample.fields, taken).items()}
    fitted: list[Fitted] = []
    candidates: list[FieldColumn] = []
    used: list[str] = []
    for column in schema.stored:
        settings = column_settings.get(column.name)
        column_fit = _fitted(column, sample, by_name, settings, zone)
        fitted.append(column_fit)
        if (source := column_fit.source) is not None:
            used.append(source)
            blob = column.storage is not Storage.SYMBOL
            candidates.append(FieldColumn(column.name, source, column_fit.reading, facts_of(sample, source), blob=blob))
    return Fit(sample, tuple(fitted), _ignored(sample, used), tuple(candidates))


def _fitted(
    column: Column, sample: Sample, by_name: Mapping[str, str], settings: ColumnSettings | None, zone: str
) -> Fitted:
    if settings is not None:
        named = None if settings.keys() & {"meta", "key"} else settings.get("from", column.name)
        if named not in sample.fields:
            return Fitted(column, given=settings)
        return Fitted(column, named, _given(column, settings), given=settings)
    source = _source(column, sample, by_name)
    if source is None:
        meta = next((meta for name, _, meta in POSITION if name == column.name and sample.messages), None)
        if meta is not None:
            return Fitted(column, meta=meta)
        raise _no_field(column, sample, by_name)
    facts = facts_of(sample, source)
    fits: Callable[[Reading], bool] = lambda reading: misfit(sample, source, reading, column.encoding) is None  # noqa: E731
    chosen = choose(facts, source, sample.form, zone, fits).reading
    if chosen is not None and chosen.type == column.type.name and fits(chosen.of_column(column)):
        return Fitted(column, source, chosen.of_column(column))
    for plain in readings_of(column.type.name, facts, sample.form, zone):
        reading = plain.of_column(column)
        if fits(reading):
            return Fitted(column, source, reading)
    if column.type.name == "String" and chosen is not None and chosen.type == "String":
        return Fitted(column, source, chosen, bad=len(list(misfits(sample, source, chosen, column.encoding))))
    first = misfit(sample, source, Reading(column.type.name).of_column(column), column.encoding)
    raise SchemaMismatchError(
        f"column {column.name} does not take the values of its field",
        where=None if first is None else first.place,
        column=column.name,
        expected=column.spelling or column.type.name,
        found=shown(source) if first is None else f"{shown(source)}: {first.value}, {first.reason}",
        hint="correct dataType in the schema (schema infer says what fits), or put the column's settings under"
        " [columns] of the stream file",
    )


def _given(column: Column, settings: ColumnSettings) -> Reading:
    form = TextForm(
        pattern=settings.get("format"),
        trim=settings.get("trim", False),
        quoted=settings.get("quoted", False),
        thousands=settings.get("thousands", ""),
        decimal=settings.get("decimal", "."),
        true=tuple(settings.get("true", ())),
        false=tuple(settings.get("false", ())),
        as_text=settings.get("as_text", False),
    )
    unit, zone, far = settings.get("unit", "iso"), settings.get("zone"), settings.get("far")
    plain = None if form == TextForm() else form
    return Reading(column.type.name, unit, zone, plain, far, settings.get("lossy", False)).of_column(column)


def _source(column: Column, sample: Sample, by_name: Mapping[str, str]) -> str | None:
    """The field of a column: as inferred, or of its name; else the only one but for case or place."""
    for source in (by_name.get(column.name), column.name):
        if source is not None and source in sample.fields:
            return source
    for name_of in (str, _last):
        folded = [source for source in sample.fields if name_of(source).casefold() == column.name.casefold()]
        if len(folded) == 1:
            return folded[0]
    return None


def _last(source: str) -> str:
    return path_of(source)[-1]


def _no_field(column: Column, sample: Sample, by_name: Mapping[str, str]) -> SchemaMismatchError:
    near = near_name(column.name, list(by_name))
    meant = f"{column.name} = {{ from = {by_name[near]!r} }}" if near else f'{column.name} = {{ from = "field" }}'
    return SchemaMismatchError(
        f"no field of the sample fills column {column.name}",
        where=sample.origin,
        column=column.name,
        expected=f"a field for {column.name}",
        found=listed([repr(shown(source)) for source in sample.fields]),
        hint=f"write {meant} under [columns] of a stream file that you name instead of the files, or remove the column",
    )


def _ignored(sample: Sample, used: Sequence[str]) -> tuple[str, ...]:
    """Fields that no column takes; of an object from which nothing is taken only its own name."""
    if sample.form != "json":
        names = [name for name in (*sample.fields, *sample.unnamed) if name not in used]
        return tuple(names)
    inside = {path[:depth] for path in map(path_of, used) for depth in range(1, len(path) + 1)}
    ignored: dict[str, None] = {}
    for source in sample.fields:
        if source not in used:
            path = path_of(source)
            depth = next((n for n in range(1, len(path)) if path[:n] not in inside), len(path))
            ignored[".".join(path[:depth])] = None
    return (*ignored, *(name for name in sample.unnamed if _writable(name)))


def _writable(name: str) -> bool:
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True

"""What is generated for the reference has everything that the code has."""

from __future__ import annotations

import re
from typing import get_args, get_origin

import pytest
from pydantic import BaseModel

from sparkhaven import errors
from sparkhaven.ingest.feeds.registry import PLANNED, settings_of
from sparkhaven.ingest.settings import SettingsModel
from sparkhaven.jobs.monitor.metrics import catalogue
from sparkhaven.jobs.settings.stream_model import StreamModel, TablesModel
from sparkhaven.store.types.datatypes import CODED, TYPES
from tests.support.docs.pages import PAGES
from tools.docs import GENERATED
from tools.docs.commands import command_pages, commands
from tools.docs.settings import SECTIONS, described, stream_file_tables
from tools.docs.tables import error_table, metric_tables, type_table

MARK = re.compile(r"^<!-- generated: (\w+) -->$", re.MULTILINE)


def test_each_part_stands_on_one_page() -> None:
    asked = [name for page in PAGES for name in MARK.findall(page.read_text(encoding="utf-8"))]
    assert sorted(asked) == sorted(GENERATED)


def test_every_command_and_option_is_there_with_a_meaning() -> None:
    page = command_pages()
    sections = dict(zip(*[iter(re.split(r"^## (.*)$", page, flags=re.MULTILINE)[1:])] * 2, strict=True))
    assert sections.keys() == {words for words, _ in commands()}
    for words, command in commands():
        for option in (
            name
            for one in command.params
            if not one.hidden
            for name in one.opts
            if name.startswith("--") and name != "--help"
        ):
            (row,) = (
                line
                for line in sections[words].splitlines()
                if line.startswith("| ") and f"`{option}`" in line.split(" | ")[0]
            )
            assert row.split(" | ")[-1].strip(" |"), f"{words} {option}"


def models(model: type[BaseModel]) -> set[type[BaseModel]]:
    """A model and all that it holds."""
    found, todo = set(), [model]
    while todo:
        one = todo.pop()
        if one not in found:
            found.add(one)
            todo += [inner for field in one.model_fields.values() for inner in _in(field.annotation)]
    return found


def _in(hint: object) -> list[type[BaseModel]]:
    if isinstance(hint, type) and get_origin(hint) is None:
        return [hint] if issubclass(hint, BaseModel) else []
    return [inner for part in get_args(hint) for inner in _in(part)]


def test_every_model_of_the_stream_file_has_a_section() -> None:
    wanted = models(StreamModel).union(models(TablesModel), *(models(settings_of(name)) for name in PLANNED))
    assert {model for _, model in SECTIONS} == wanted - {SettingsModel}


@pytest.mark.parametrize("model", [model for _, model in SECTIONS])
def test_every_key_of_the_stream_file_is_described(model: type[BaseModel]) -> None:
    assert described(model).keys() == model.model_fields.keys()
    assert all(text.endswith(".") for text in described(model).values())


def test_defaults_are_those_of_the_models() -> None:
    page = stream_file_tables()
    assert "| `keep_epochs` | whole number from 1 | `100` |" in page
    assert '| `settle` | duration | `"10 s"` |' in page
    assert "| `name` | text | required |" in page


def test_every_metric_type_and_error_is_there() -> None:
    metrics = [value for value in vars(catalogue).values() if isinstance(value, catalogue.Metric)]
    assert len(metrics) > 40 and all(f"`{catalogue.PREFIX}{metric.name}`" in metric_tables() for metric in metrics)
    assert all(f"| `{kind.name}` |" in type_table() for kind in TYPES)
    assert all(f"| `{row.name}` |" in type_table() for row in CODED)
    assert all(f"| `{name}` |" in error_table() for name in {*errors.__all__} - {"from_spark", "HistoryWarning"})

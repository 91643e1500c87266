"""Values travel between modules as types: what this holds, and what remains, is counted here."""

from __future__ import annotations

import ast
import tomllib
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.support.places import REPOSITORY
from tools.code.syntax_trees import module_tree

PACKAGES = ("store", "ingest", "readers", "writers", "jobs")
UNTYPED = "dict[str, Any]"
PLACE = {"Fs", "Layout", "TableName"}  # what a ``TablePlace`` has
# Each parameter is an option of a command; elsewhere 8 are enough.
MANY_PARAMETERS = {
    "tests/**",
    "jobs/cli/**",
}
COMPARED = {"phase", "outcome"}
# Public functions that take or return objects of JSON, TOML or Parquet, or the result of a command, and why they do:
# fewer, never more.
REMAINING = {
    "ingest/feeds/spark_planning.py": 1,
    "ingest/feeds/files/feed.py": 1,
    "ingest/feeds/kafka/settings.py": 1,
    "ingest/formats/avro/avro_records.py": 1,
    "ingest/formats/json/field_paths.py": 2,
    "ingest/formats/json/json_rows.py": 1,
    "ingest/inference/file_feed.py": 1,
    "ingest/settings.py": 1,
    "jobs/cli/context.py": 3,  # results of commands, which are printed
    "demo/flights.py": 1,
    "demo/live/run.py": 1,
    "demo/live/watcher.py": 1,
    "jobs/monitor/rejected.py": 1,  # what ``quarantine list`` prints
    "jobs/settings/faults.py": 1,  # a stream file as it is written
    "jobs/settings/feed_part.py": 1,  # a stream file as it is written
    "jobs/settings/stream_file.py": 2,  # a stream file as it is written
    "jobs/cli/reading/stats.py": 1,  # what ``stats`` prints
    "readers/inspect/column_files.py": 5,  # what ``inspect`` prints
    "readers/inspect/any_file.py": 1,  # what ``inspect`` prints
    "readers/inspect/record_files.py": 12,  # what ``inspect`` prints
    "store/epochs/state/log_records.py": 1,  # a record of the commit log
    "store/epochs/state/removed_locations.py": 1,  # a record of the commit log
    "store/epochs/state/packed_location.py": 1,  # a record of the commit log
    "store/format/java/java_values.py": 1,  # fields of a serialized Java object
    "store/format/table/table_size.py": 1,  # fields of a serialized Java object
    "store/format/table/tbl.py": 1,  # what ``inspect`` prints
    "store/framing.py": 1,  # any object that is canonical JSON
    "store/merges/merge_run.py": 2,  # parts of a merge record
    "store/schema/document/describe.py": 1,  # what ``schema show`` prints
    "writers/quarantine/quarantined_rows.py": 1,  # some columns of rows, by name
    "writers/removal/removal_proof.py": 1,  # a part of a removal record
}


def modules(*packages: str) -> Iterator[tuple[str, ast.Module]]:
    for package in packages:
        for path in sorted((REPOSITORY / package).rglob("*.py")):
            yield str(path.relative_to(REPOSITORY)), parsed(path)


@cache
def parsed(path: Path) -> ast.Module:
    return module_tree(path)


def annotated(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.expr]:
    named = function.args
    for argument in (*named.posonlyargs, *named.args, *named.kwonlyargs):
        if argument.annotation is not None:
            yield argument.annotation
    if function.returns is not None:
        yield function.returns


def untyped() -> Iterator[str]:
    """The module of each public function or method that has an untyped dictionary in its signature."""
    for name, module in modules(*PACKAGES):
        for node in ast.walk(module):
            if not isinstance(node, ast.FunctionDef) or node.name.startswith("_"):
                continue
            if any(UNTYPED in ast.unparse(annotation) for annotation in annotated(node)):
                yield name


def placeless() -> Iterator[str]:
    """Each function that takes file system, root and name of a table one by one."""
    for name, module in modules(*PACKAGES):
        for node in ast.walk(module):
            if isinstance(node, ast.FunctionDef) and {ast.unparse(part) for part in annotated(node)} >= PLACE:
                yield f"{name}:{node.lineno}: {node.name}"


def compared_as_text() -> Iterator[str]:
    for name, module in modules(*PACKAGES):
        for node in ast.walk(module):
            if not isinstance(node, ast.Compare):
                continue
            sides = (node.left, *node.comparators)
            named = any(isinstance(side, ast.Attribute) and side.attr in COMPARED for side in sides)
            if named and any(isinstance(part, ast.Constant) and isinstance(part.value, str) for part in ast.walk(node)):
                yield f"{name}:{node.lineno}: {ast.unparse(node)}"


def test_no_more_public_functions_have_untyped_dictionaries() -> None:
    counted = Counter(untyped())
    assert {name: number for name, number in counted.items() if number > REMAINING.get(name, 0)} == {}


def test_no_phase_or_outcome_is_compared_as_text() -> None:
    assert list(compared_as_text()) == []


def test_a_table_is_passed_as_its_place() -> None:
    assert list(placeless()) == []


def test_no_further_module_has_functions_of_many_parameters() -> None:
    lint = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["ruff"]["lint"]
    exempt = {path for path, rules in lint["per-file-ignores"].items() if "PLR0913" in rules}
    assert exempt <= MANY_PARAMETERS and lint["pylint"]["max-args"] == 8

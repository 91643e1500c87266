"""Functions of users as rules: what they are given, what comes of their findings, errors and mistakes."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

import sparkhaven
from sparkhaven.store.errors import CorruptFileError, SettingsError, ValidationFailedError
from sparkhaven.store.layout import LocationKey
from sparkhaven.store.merges.merge_records import newest
from sparkhaven.store.merges.validations import RuleResult
from sparkhaven.writers.merge.plan.merge_inputs import history_sources
from sparkhaven.writers.validation.date_validation import RuleChoice, run_validator, validate_date
from sparkhaven.writers.validation.rows.date_rows import PassSizes, RowSet
from sparkhaven.writers.validation.validators import load_validators
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.merge_cases import ARROW, DAY, TABLE
from tests.support.writers.merge_runs import FS
from tests.support.writers.plain_rows import plain_rows
from tests.support.writers.removals import empty
from tests.support.writers.validated_dates import validated

HEAD = "import sparkhaven\n"


@pytest.fixture
def code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory of modules, outside of the root, which no other test sees."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    before = set(sys.modules)
    directory = tmp_path / "code"
    directory.mkdir()
    yield directory
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", None)).startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.fixture
def db(tmp_path: Path) -> IntradayRows:
    return validated(tmp_path / "root", "", plain_rows())[0]


def ran(db: IntradayRows, code: Path, body: str, *, modes: tuple[str, ...] = ()) -> list[RuleResult]:
    """Results of the function ``check`` of a module with this text."""
    (code / "checks.py").write_text(HEAD + body, encoding="utf-8")
    sys.modules.pop("checks", None)
    validators = load_validators(["checks:check"], [code], db.layout.root)
    results = validate_date(db.place, DAY, choice=RuleChoice(modes, validators, sizes=PassSizes(rows=3))).results
    return [result for result in results if result.rule == "checks:check"]


def declared(columns: str, lines: str, more: str = "") -> str:
    return f"@sparkhaven.validator(columns={columns}{more})\ndef check(batches):\n" + "".join(
        f"    {line}\n" for line in lines.splitlines()
    )


def test_a_function_sees_every_row_once_with_the_types_of_a_read(db: IntradayRows, code: Path) -> None:
    body = declared(str([*ARROW, "Date"]), "check.seen = list(batches)\nreturn []")
    (found,) = ran(db, code, body)
    assert (found.passed, found.measured, found.lower, found.upper, found.message) == (True, 0, 0, 0, "0 findings")
    seen = pa.Table.from_batches(sys.modules["checks"].check.seen)
    read = sparkhaven.open_table(db.layout.root, str(TABLE)).to_arrow([*ARROW, "Date"], tier="history")
    plain = pa.table([read[name].cast(seen.schema.field(name).type) for name in read.column_names], read.column_names)
    assert repr(seen.to_pylist()) == repr(plain.to_pylist()) and seen.num_rows == 20
    kinds = {name: kind for name, kind in ARROW.items() if name != "C"}
    assert {name: seen.schema.field(name).type for name in kinds} == kinds


def test_findings_fail_the_date_and_are_counted_and_named(db: IntradayRows, code: Path) -> None:
    body = declared('["Sym"]', 'for batch in batches:\n    for _ in range(batch.num_rows):\n        yield "x" * 300')
    (found,) = ran(db, code, body)
    assert (found.passed, found.measured, found.column, found.mode) == (False, 20, "Sym", "FULL_DATABASE")
    assert found.message.startswith("20 findings: " + "x" * 199 + "…; ")
    many = declared('["Sym"]', "list(batches)\nreturn map(str, range(1000))")
    assert ran(db, code, many)[0].message.endswith("; 19; and 980 more")


WRONG = [
    ("return 1 / 0", "raised ZeroDivisionError: division by zero, at {file}:4 in check"),
    (
        "list(batches)\nreturn None",
        "raised TypeError: the validator returned NoneType, not a list or iterator of texts",
    ),
    ('return "wrong"', "raised TypeError: the validator returned str, not a list or iterator of texts"),
    ("return True", "raised TypeError: the validator returned bool, not a list or iterator of texts"),
    ("yield 7", "raised TypeError: a finding is int, not a text"),
    ('yield "one"\nimport sys\nsys.exit(0)', "raised SystemExit: 0, at {file}:6 in check"),
    ("import json\njson.loads('{')", "{file}:5 in check"),
    ("def inner():\n    raise KeyError('k')\ninner()", "raised KeyError: 'k', at {file}:5 in inner"),
]


@pytest.mark.parametrize(("lines", "message"), WRONG, ids=[lines.splitlines()[-1] for lines, _ in WRONG])
def test_an_error_of_the_function_fails_with_its_line(lines: str, message: str, db: IntradayRows, code: Path) -> None:
    (found,) = ran(db, code, declared('["Sym"]', lines))
    assert found.passed is False
    assert message.format(file=code / "checks.py") in found.message


@pytest.mark.parametrize("swallows", [True, False])
def test_errors_of_reading_are_errors_whatever_the_function_makes_of_them(
    swallows: bool, db: IntradayRows, code: Path
) -> None:
    record = newest(db.place, DAY)
    assert record is not None
    rows = RowSet(FS, db.schema, DAY, tuple(history_sources(db.place, record)))
    (db.layout.history_location(TABLE, LocationKey("0", DAY)) / "Sym.sym").unlink()
    lines = "try:\n    list(batches)\nexcept Exception:\n    pass\nreturn []" if swallows else "return list(batches)"
    (code / "checks.py").write_text(HEAD + declared('["Sym"]', lines), encoding="utf-8")
    (validator,) = load_validators(["checks:check"], [code], db.layout.root)
    with pytest.raises((CorruptFileError, OSError)):
        run_validator(validator, rows, lambda error: pytest.fail(str(error)))


def test_a_column_that_the_table_lacks_is_not_evaluated(db: IntradayRows, code: Path) -> None:
    (found,) = ran(db, code, declared('["Nope"]', "return []"))
    assert (found.passed, found.message) == (None, "not evaluated: the table has no column Nope")


def test_modes_say_over_which_rows_it_runs(db: IntradayRows, code: Path) -> None:
    rows = "return [f'{sum(b.num_rows for b in batches)} rows']"
    both = ran(db, code, declared('["Sym"]', rows, ', modes=["SIMPLE_TABLE", "FULL_INTRADAY"]'))
    assert [(found.mode, found.message) for found in both] == [
        ("SIMPLE_TABLE", "internal partition 0: 1 finding: 20 rows"),
        ("FULL_INTRADAY", "1 finding: 20 rows"),
    ]
    (one,) = ran(db, code, declared('["Sym"]', rows), modes=("FULL_INTRADAY",))
    assert one.mode == "FULL_INTRADAY"
    assert ran(db, code, declared('["Sym"]', rows, ', modes=["SIMPLE_TABLE"]'), modes=("FULL_INTRADAY",)) == []
    empty(db)
    (gone,) = ran(db, code, declared('["Sym"]', rows, ', modes=["FULL_INTRADAY"]'))
    assert gone.passed is None and "intraday rows were removed" in gone.message


# --- names and imports ----------------------------------------------------------------------------------------------


def test_modules_of_packages_are_found_and_a_function_runs_once(tmp_path: Path, code: Path) -> None:
    (code / "ours").mkdir()
    (code / "ours" / "__init__.py").write_text("")
    (code / "ours" / "deep.py").write_text(HEAD + declared('("Sym",)', "return []"), encoding="utf-8")
    (found,) = load_validators(["ours.deep:check", "ours.deep:check"], [code], tmp_path / "root")
    assert (found.name, found.declared.columns, found.file) == (
        "ours.deep:check",
        ("Sym",),
        str(code / "ours" / "deep.py"),
    )


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("checks", "--validator is no name of a function"),
        ("checks.py:check", "the module of a validator cannot be imported"),
        ("/tmp/checks:check", "--validator is no name of a function"),
        ("nowhere:check", "the module of a validator cannot be imported"),
        ("checks.below:check", "the module of a validator cannot be imported"),
        ("checks:nothing", "the module has no such validator"),
        ("checks:HERE", "the module has no such validator"),
        ("checks:plain", "the function declares no columns"),
    ],
)
def test_a_name_of_no_validator_is_wrong_usage(name: str, message: str, tmp_path: Path, code: Path) -> None:
    (code / "checks.py").write_text("HERE = 1\ndef plain(batches):\n    return []\n", encoding="utf-8")
    with pytest.raises(SettingsError, match=message):
        load_validators([name], [code], tmp_path / "root")


@pytest.mark.parametrize(
    ("text", "found", "line"),
    [
        ("x = 1\n1 / 0\n", "ZeroDivisionError: division by zero", 2),
        ("def broken(:\n", "SyntaxError: invalid syntax", 1),
        ("\nimport nothing_like_this\n", "ModuleNotFoundError: No module named 'nothing_like_this'", 2),
        ("import sys\nsys.exit(0)\n", "SystemExit: 0", 2),
    ],
)
def test_an_error_while_importing_is_bad_data_with_its_line(
    text: str, found: str, line: int, tmp_path: Path, code: Path
) -> None:
    (code / "checks.py").write_text(text, encoding="utf-8")
    with pytest.raises(ValidationFailedError, match="while its module was imported") as caught:
        load_validators(["checks:check"], [code], tmp_path / "root")
    assert caught.value.exit_code == 1 and (caught.value.found or "").startswith(found)
    assert (caught.value.where or "").startswith(f"{code / 'checks.py'}:{line}")


@pytest.mark.parametrize("where", ["path", "import", "package", "link"])
def test_nothing_below_the_root_is_executed(where: str, tmp_path: Path, code: Path) -> None:
    root, ran_file = tmp_path / "root", tmp_path / "ran"
    inside = root / "Schemas"
    inside.mkdir(parents=True)
    text = f"open({str(ran_file)!r}, 'w').close()\n" + HEAD + declared('["Sym"]', "return []")
    (inside / "checks.py").write_text(text, encoding="utf-8")
    name, paths = "checks:check", [inside]
    if where == "import":
        sys.path.insert(0, str(inside))
        paths = []
    elif where == "package":
        (inside / "__init__.py").write_text(text, encoding="utf-8")
        sys.path.insert(0, str(root))
        name, paths = "Schemas.checks:check", []
    elif where == "link":
        (code / "checks.py").symlink_to(inside / "checks.py")
        paths = [code]
    with pytest.raises(SettingsError, match="a validator lies below the database root"):
        load_validators([name], paths, root)
    assert not ran_file.exists()


@pytest.mark.parametrize("arguments", [{"columns": "Sym"}, {"columns": []}, {"columns": ["A"], "modes": ["HISTORY"]}])
def test_a_wrong_declaration_is_wrong_usage(arguments: dict[str, object]) -> None:
    with pytest.raises(SettingsError, match="declared wrongly"):
        sparkhaven.validator(**arguments)  # type: ignore[arg-type]


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="no such directory of validators"):
        load_validators(["a:b"], [tmp_path / "none"], tmp_path / "root")

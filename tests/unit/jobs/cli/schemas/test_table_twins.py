"""Tables whose names differ in case only: no command makes the second one, and a root that has both stays readable."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sparkhaven.jobs.dataframes.frame_stream import open_stream
from sparkhaven.jobs.settings.frame_options import frame_options
from sparkhaven.readers.arrow.opening import open_table
from sparkhaven.store.errors import InvalidNameError
from sparkhaven.store.io.fs import Fs
from sparkhaven.store.layout import Layout
from tests.support.commands import run
from tests.support.streams.schema_site import Site, schema

TWINS = "Test.event", "test.Event"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    made = Site(tmp_path)
    made.stream()
    made.put({"A": 1, "B": "x", "C": 0.5})
    made.ingest()
    return made


def twin_files(base: Path, twin: str) -> tuple[Path, Path]:
    """Schema and stream file of another table."""
    namespace, name = twin.split(".")
    file = base / "twin" / f"{twin}.schema"
    file.parent.mkdir()
    file.write_text(schema().replace('namespace="Test" name="Event"', f'namespace="{namespace}" name="{name}"'))
    stream = base / "twin.toml"
    text = (base / "s.toml").read_text().replace('table = "Test.Event"', f'table = "{twin}"')
    stream.write_text(text.replace(str(base / "Test.Event.schema"), str(file)))
    return file, stream


@pytest.mark.slow
@pytest.mark.parametrize("twin", TWINS)
def test_no_command_makes_the_second_table(site: Site, twin: str) -> None:
    file, stream = twin_files(site.base, twin)
    for words in (
        ["schema", "deploy", str(file)],
        ["schema", "deploy", str(file), "--dry-run"],
        ["schema", "check", str(file), "--against", str(site.root)],
        ["ingest", str(stream), "--once", "--local"],
        ["ingest", str(stream), "--dry-run"],
        ["ingest", str(stream), "--once", "--local", "--accept-schema"],
        ["import", twin, "--from", str(site.base), "--layout", "flat", "--schema", str(file)],
    ):
        found = run(site.root, *words)
        assert found.exit_code == 2, (words, found.output)
        for text in (f"{twin} and Test.Event differ in case only", "expected: ", "found: Test.Event", "to do: "):
            assert text in found.stderr, (words, found.stderr)
    route: dict[str, Any] = {"internal": {"fixed": "0"}, "value": {"fixed": "d"}, "positions": None, "bounds": None}
    rest: dict[str, Any] = {"durability": "fsync", "ignore": (), "bad_rows": None, "keep_epochs": 1}
    options = frame_options(site.root, twin, "f", schema=file, allow_gap=False, adopt=False, **route, **rest)
    with pytest.raises(InvalidNameError, match="differ in case only"):
        open_stream(Fs(), options, "")
    assert [path.name for path in sorted((site.root / "Schemas").iterdir())] == [
        "Test.Event.history.json",
        "Test.Event.schema",
    ]


@pytest.mark.slow
def test_a_root_that_has_both_is_read_and_written_on_and_sql_takes_one_at_a_time(site: Site) -> None:
    layout = Layout(site.root)
    _, stream = twin_files(site.base, "Test.event")
    (site.root / "Schemas").rename(site.root / "aside")  # as by an earlier release, which asked for no other name
    assert run(site.root, "ingest", str(stream), "--once", "--local").exit_code == 0
    for path in (site.root / "aside").iterdir():
        path.rename(layout.schemas() / path.name)
    (site.root / "aside").rmdir()
    site.put({"A": 2, "B": "y", "C": 1.5})
    site.ingest()
    assert run(site.root, "ingest", str(stream), "--once", "--local").exit_code == 0
    for name in ("Test.Event", "Test.event"):
        assert open_table(site.root, name).to_arrow(["A"])["A"].to_pylist() == [1, 2]
        assert run(site.root, "read", name).exit_code == 0
        assert site.do("sql", f"SELECT A FROM {name} ORDER BY A")["first"] == [{"A": 1}, {"A": 2}]
    refused = run(site.root, "sql", "SELECT * FROM Test.Event UNION ALL SELECT * FROM Test.event")
    assert refused.exit_code == 2 and "Test.Event, Test.event" in refused.stderr
    assert "Test.Event and Test.event differ in case only" in run(site.root, "doctor").stdout
    site.night()


@pytest.mark.slow
def test_namespaces_that_differ_in_case_may_have_tables_of_other_names(site: Site) -> None:
    file, _ = twin_files(site.base, "test.Other")
    assert run(site.root, "schema", "deploy", str(file)).exit_code == 0
    found = site.do("sql", "SELECT count(*) AS n FROM Test.Event JOIN test.Other USING (A)")
    assert found["first"] == [{"n": 0}]

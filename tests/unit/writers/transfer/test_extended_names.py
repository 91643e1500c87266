"""The tree of ``ExtendedStorage`` after columns of the table were renamed, exchanged or made wider."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.support.commands import run, run_json
from tests.support.streams.schema_site import Site, schema
from tests.support.writers.extended_cases import KINDS

LONGS = {"A": "long", "B": "long"}
CYCLE = ((1, 2), (2, 3), (3, 1))  # both columns have the same values


class Treed(Site):
    """A merged date, and a tree beside it."""

    kind = ""

    def declare(self, columns: dict[str, str]) -> None:
        self.write(schema(columns, f'<ExtendedStorage type="{self.kind}"/>'))

    def tree(self, *names: str) -> list[tuple[int | None, ...]]:
        """Rows of its files."""
        files = sorted((self.root / "Systems" / "Test" / "Extended" / "Event").rglob("*.parquet"))
        tables = [pq.ParquetFile(path).read() for path in files]
        return sorted(row for table in tables for row in zip(*(table[name].to_pylist() for name in names), strict=True))


@pytest.fixture(params=KINDS)
def site(request: pytest.FixtureRequest, tmp_path: Path) -> Treed:
    site = Treed(tmp_path)
    site.kind = request.param
    site.declare(LONGS)
    site.stream()
    for one, other in CYCLE:
        site.put({"A": one, "B": other})
    site.ingest()
    assert run(site.root, "partitions", "add", "Test", "0").exit_code == 0
    site.merge()
    assert site.tree("A", "B") == sorted(CYCLE)
    return site


def test_exchanged_names_are_followed_by_the_next_merge(site: Treed) -> None:
    site.declare({"B": "long", "A": "long"})
    site.deploy("--rename", "A=B", "--rename", "B=A")
    site.merge()
    assert site.tree("B", "A") == sorted(CYCLE)
    site.merge("--rewrite")
    assert site.tree("B", "A") == sorted(CYCLE)
    assert run(site.root, "verify", "--deep").exit_code == 0


def test_a_name_that_another_column_has_now_is_followed(site: Treed) -> None:
    site.declare({"C": "long", "B": "long", "A": "long"})
    site.deploy("--rename", "A=C")
    site.merge()
    assert site.tree("C", "B") == sorted(CYCLE)
    assert {row[0] for row in site.tree("A")} == {None}


def test_verify_tells_of_a_tree_with_names_of_before(site: Treed) -> None:
    assert run_json(site.root, "verify")[1]["findings"] == []
    site.declare({"B": "long", "A": "long"})
    site.deploy("--rename", "A=B", "--rename", "B=A")
    (found,) = run_json(site.root, "verify")[1]["findings"]
    assert found["code"] == "W325"
    assert found["found"].startswith("other columns than A, B")
    site.merge()
    assert run_json(site.root, "verify")[1]["findings"] == []


@pytest.mark.parametrize("change", ["layout", "names", "none"])
def test_a_snapshot_leaves_out_a_tree_that_the_schema_no_longer_asks_for(site: Treed, change: str) -> None:
    if change == "layout":
        site.kind = next(kind for kind in KINDS if kind != site.kind)
    names = {"B": "long", "A": "long"} if change == "names" else LONGS
    site.write(schema(names)) if change == "none" else site.declare(names)
    site.deploy(*(("--rename", "A=B", "--rename", "B=A") if change == "names" else ()))
    copy, back = site.base / "copy", site.base / "back"
    for root, words in ((site.root, ("snapshot", "--out", copy)), (back, ("restore", copy))):
        done = run(root, *words)
        assert done.exit_code == 0, done.output
    assert not (copy / "Systems" / "Test" / "Extended").exists()
    assert run(back, "verify", "--deep").exit_code == 0
    assert run(site.root, "compare", back).exit_code == 0
    site.root = back
    site.merge()
    if change != "none":
        assert site.tree(*names) == sorted(CYCLE)

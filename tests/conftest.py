"""What tests of all kinds share."""

from __future__ import annotations

import gc
import importlib.abc
import os
import sys
from collections.abc import Generator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from typer import testing
from typer.main import get_command

from tests.support.campaigns import Campaigns
from tests.support.examples import load_profile, share, try_fewer_examples
from tests.support.marks import leaves_out

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.contracts.codings.coded_readers import CodedSnapshot
    from tests.contracts.readers.snapshot_readers import Snapshot
    from tests.support.tables.user_intraday import UserIntraday

SKIPS = "SPARKHAVEN_SKIPS"  # "fail": a run in which a test was skipped ends with 1; `.ci/run` sets it
os.environ.setdefault("SPARKHAVEN_LOGS", "off")  # tests compare trees; those of the log tables switch them on

LONGEST_FIRST = ({"spark", "kafka", "jvm", "deephaven"}, {"slow", "browser"})
RANK: dict[Path, int] = {}  # of each file by its tests, in this order

load_profile()

# typer's runner builds the command line anew for every call, which takes longer than most commands
vars(testing)["_get_command"] = cache(get_command)


class OneNameForAModule(importlib.abc.MetaPathFinder):
    """Refuses the top-level folders as packages: a test that patches a second copy of a module changes nothing."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name in {"store", "ingest", "writers", "readers", "jobs", "conf"}:
            raise ImportError(f"no package of ours is named {name}: import sparkhaven.{name}")


sys.meta_path.insert(0, OneNameForAModule())
pytest.register_assert_rewrite("tests.contracts", "sparkhaven.testing")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Campaigns())


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """A file of which ``-m`` takes nothing is not imported: what it imports takes longer than a hundred tests."""
    wanted = config.option.markexpr
    if not wanted or collection_path.suffix != ".py" or not collection_path.is_file():
        return None
    return leaves_out(wanted, collection_path.read_text(encoding="utf-8")) or None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Collection makes many objects that stay: the garbage collector need not look at them again and again.

    Tests make many that go without it, so that it may look less often: an eighth of their time.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.set_threshold(20_000, 20, 20)
        gc.enable()


@pytest.fixture(scope="module")
def spark() -> SparkSession:
    """The session of all test files that need none of their own; it knows our data source."""
    import sparkhaven
    from tests.support.spark.one_session import shared_session

    session = shared_session()
    sparkhaven.register(session)
    return session


@pytest.fixture(scope="session")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Snapshot:
    """The table that all readers are asked for, and its rows."""
    from tests.contracts.readers.snapshot_readers import make_snapshot

    return make_snapshot(tmp_path_factory.mktemp("snapshot") / "db")


@pytest.fixture(scope="session")
def coded_snapshot(tmp_path_factory: pytest.TempPathFactory) -> CodedSnapshot:
    """The same with types that have a codec."""
    from tests.contracts.codings.coded_readers import make_coded_snapshot

    return make_coded_snapshot(tmp_path_factory.mktemp("coded") / "db")


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> UserIntraday:
    """A user table to whose intraday data a program appends; the setting names the directory."""
    from sparkhaven.store.layout import USER_INTRADAY
    from tests.contracts.readers.user_intraday import append_rows
    from tests.support.tables.user_intraday import NAME

    monkeypatch.setenv(USER_INTRADAY, NAME)
    return append_rows(tmp_path / "db")


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> None:
    """The shared session ends with the last test that may use it, not with the process."""
    if nextitem is None or RANK[nextitem.path] > 0:
        one_session = sys.modules.get("tests.support.spark.one_session")
        if one_session is not None:
            one_session.end_shared_session()


@pytest.hookimpl(wrapper=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None, None, None]:
    """A test that was skipped is one that nobody ran: on a machine that has everything, the run fails."""
    yield
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get(SKIPS) == "fail" and reporter is not None and reporter.stats.get("skipped"):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(trylast=True)
def pytest_unconfigure() -> None:
    """Libraries that count what is left at the end of the process find nothing of ours."""
    gc.unfreeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with the longest tests come first, so that no process is left with one of them at the end."""
    for item in items:
        marks = {mark.name for mark in item.iter_markers()}
        found = next((n for n, names in enumerate(LONGEST_FIRST) if names & marks), len(LONGEST_FIRST))
        RANK[item.path] = min(found, RANK.get(item.path, found))
    items.sort(key=lambda item: RANK[item.path])
    if share() < 1:
        for item in items:
            if isinstance(item, pytest.Function):
                try_fewer_examples(item.obj, share())

"""For tests of code that uses tables or feeds.

``make_table``           makes a small table, without Spark
``assert_table_equal``   compares a table with a data frame, by the package chispa
``FeedContract``         the suite that a feed passes, for a subclass in a test of yours, with pytest
``PlannedFeedContract``  the suite of a feed that a stream file names

pytest is imported when a suite is first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from sparkhaven.store.errors import SettingsError
from sparkhaven.testing.tables import assert_table_equal, make_table

if TYPE_CHECKING:
    from sparkhaven.testing.feed_contract import FeedCase, FeedContract, Row
    from sparkhaven.testing.planned_contract import PlannedFeedCase, PlannedFeedContract

__all__ = [
    "FeedCase",
    "FeedContract",
    "PlannedFeedCase",
    "PlannedFeedContract",
    "Row",
    "assert_table_equal",
    "make_table",
]
_ON_USE = {
    "FeedCase": "feed_contract",
    "FeedContract": "feed_contract",
    "PlannedFeedCase": "planned_contract",
    "PlannedFeedContract": "planned_contract",
    "Row": "feed_contract",
}


def __getattr__(name: str) -> object:
    """Imports a suite, whose assertions then tell what they compare; AttributeError: there is no such name."""
    if name not in _ON_USE:
        raise AttributeError(f"module 'sparkhaven.testing' has no attribute {name!r}")
    try:
        import pytest
    except ImportError:
        raise SettingsError("pytest is not installed", where=name, hint="pip install pytest") from None
    modules = {f"{__name__}.{module}" for module in _ON_USE.values()}
    pytest.register_assert_rewrite(*sorted(modules))
    return globals().setdefault(name, getattr(import_module(f"{__name__}.{_ON_USE[name]}"), name))

"""Partition values of instants are what the standard library says of each of them, however they lie together."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sparkhaven.ingest.router import date_names
from sparkhaven.ingest.spec import ValueRule

NS = 10**9
# before and after clocks change, at midnight and elsewhere, and at the end of a year; two of the days are the longest
STARTS = st.sampled_from(
    [datetime(2013, 3, 10, 6), datetime(2013, 11, 3, 4), datetime(2013, 10, 20, 2), datetime(2013, 12, 31, 22)]
)
ZONES = st.sampled_from(["UTC", "America/New_York", "America/Sao_Paulo", "Australia/Lord_Howe", "Asia/Kolkata"])
FORMATS = {"yyyy-MM-dd": "%Y-%m-%d", "yyyy-MM-dd-HH": "%Y-%m-%d-%H"}


@settings(deadline=None)  # the first call reads the table of a zone
@given(STARTS, ZONES, st.sampled_from(list(FORMATS)), st.lists(st.integers(0, 300), min_size=1, max_size=5))
@example(datetime(2013, 11, 3, 4), "America/New_York", "yyyy-MM-dd-HH", [90, 150])  # 01:30 twice
@example(datetime(2010, 11, 7, 1), "America/St_Johns", "yyyy-MM-dd", [60, 90, 120])  # back from one past midnight
def test_each_instant_has_its_own_date(start: datetime, zone: str, form: str, minutes: list[int]) -> None:
    base = round(start.replace(tzinfo=UTC).timestamp())
    instants = np.array([(base + 60 * minute) * NS + 999 for minute in minutes], np.int64)
    names, codes = date_names(instants, ValueRule("at", zone=zone, format=form))
    local = [datetime.fromtimestamp(ns // NS, ZoneInfo(zone)) for ns in instants.tolist()]
    assert [names[code] for code in codes.tolist()] == [at.strftime(FORMATS[form]) for at in local]
    assert sorted(set(names)) == sorted(names)

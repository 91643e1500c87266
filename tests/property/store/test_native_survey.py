"""A survey by the core has the bounds that numpy finds, zeros with their sign, and CRC-32 and sum of the entries."""

from __future__ import annotations

import numpy as np
import pytest

from sparkhaven.store.native.digests import FixedEntries, fixed_sum, survey_entries
from tests.oracles.columns import plain_survey
from tests.support.guard_pages import guarded

PREFIX = b"\x07\0\0\0\x06"
NULLS = {"i1": -128, "i2": -(2**15), "i4": -(2**31), "i8": -(2**63), "u2": 2**16 - 1}
ROWS = (0, 1, 5, 8192, 8193, 30_000)


@pytest.mark.campaign
@pytest.mark.parametrize("kind", [*NULLS, "f4", "f8"])
@pytest.mark.parametrize("values", ["bits", "few", "small", "one", "null", "zeros"])
def test_a_survey_is_what_numpy_finds(kind: str, values: str) -> None:
    chance, dtype = np.random.default_rng(5), np.dtype(kind)
    null = NULLS[kind] if kind in NULLS else -float(np.finfo(dtype).max)
    for rows in ROWS:
        entries = {
            "bits": chance.integers(0, 256, rows * dtype.itemsize, np.uint8).view(dtype),
            "few": chance.integers(0, 5, rows).astype(dtype),
            "small": chance.normal(60, 20, rows).astype(dtype),
            "one": np.full(rows, 7, dtype),
            "null": np.full(rows, null, dtype),
            "zeros": np.where(np.arange(rows) % 3 == 1, dtype.type(0), -dtype.type(0)).astype(dtype),
        }[values]
        if values in ("few", "small"):
            entries[3::5] = null
        fixed = FixedEntries(PREFIX, null, dtype, False)
        plain = plain_survey(entries, fixed, 77)
        with guarded(entries) as held:
            survey = survey_entries(held, fixed, 77)
        assert repr(survey.bounds) == repr(plain.bounds)
        assert survey.crc == plain.crc
        assert survey.sum == fixed_sum(PREFIX, entries, null, boolean=False)
        with guarded(entries) as held:
            bare = survey_entries(held, fixed, 77, digest=False)
        assert (repr(bare.bounds), bare.crc, bare.sum) == (repr(survey.bounds), survey.crc, None)

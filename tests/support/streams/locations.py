"""Two locations of one date, for tests of commit logs."""

from __future__ import annotations

from sparkhaven.store.layout import LocationKey

DAY = "2026-11-20"
A, B = LocationKey("a", DAY), LocationKey("b", DAY)

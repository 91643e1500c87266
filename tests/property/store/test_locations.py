"""Locations of a state are found by date after any changes, as in a plain dict."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from sparkhaven.store.epochs.state.locations import Locations
from sparkhaven.store.epochs.state.log_values import LocationState
from sparkhaven.store.layout import LocationKey

DATES = ("2024-01-01", "2024-01-02")
KEYS = [LocationKey(internal, value) for internal in "abc" for value in DATES]
CHANGES = ("set", "delete", "later", "decode", "copy", "settle")


def _location(key: LocationKey, rows: int) -> LocationState:
    return LocationState(key, 0, 0, rows, {}, {}, 1)


class Saved:
    """Locations of a file, each of one row."""

    def __init__(self, keys: list[LocationKey]) -> None:
        self._keys = dict.fromkeys(keys)

    def packed(self) -> None:
        return None

    def keys(self) -> Iterator[LocationKey]:
        return iter(self._keys)

    def of_value(self, value: str) -> list[LocationKey]:
        return [key for key in self._keys if key.value == value]

    def values(self) -> list[str]:
        return [key.value for key in self._keys]

    def find(self, key: LocationKey) -> LocationState | None:
        return _location(key, 1) if key in self._keys else None

    def __len__(self) -> int:
        return len(self._keys)

    def __contains__(self, key: object) -> bool:
        return key in self._keys


@given(
    saved=st.lists(st.sampled_from(KEYS), unique=True),
    steps=st.lists(st.tuples(st.sampled_from(CHANGES), st.sampled_from(KEYS), st.booleans()), max_size=12),
)
def test_a_date_has_the_locations_that_are_left_of_it(
    saved: list[LocationKey], steps: list[tuple[str, LocationKey, bool]]
) -> None:
    locations = Locations(saved=Saved(saved))
    model = {key: _location(key, 1) for key in saved}
    for number, (change, key, asked) in enumerate(steps, start=2):
        if change == "set":
            locations[key] = model[key] = _location(key, number)
        elif change == "delete" and key in model:
            del locations[key], model[key]
        elif change == "later":
            locations.later(key, lambda before, key=key, n=number: replace(before or _location(key, 0), rows=n))
            model[key] = _location(key, number)
        elif change == "decode":
            assert locations.get(key) == model.get(key)
        elif change == "copy":
            locations[key] = _location(key, number)  # of the one that is left behind
            before, locations = locations, locations.copy()
            model[key] = _location(key, number)
            before.pop(key)
        elif change == "settle":
            locations.settle()
        for value in DATES if asked else ():
            assert locations.of_date(value) == [model[key] for key in sorted(model) if key.value == value]
    assert locations == model
    assert locations.dates() == {key.value for key in model}

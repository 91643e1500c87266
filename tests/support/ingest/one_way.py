"""Decoders of JSON lines that go one way only, and tests that run with the compiled core and without."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from ingest.bad_rows import Rejects
from ingest.content.lines import LineBlock
from ingest.formats.json import rows as json_rows
from ingest.formats.json.rows import MAX_LINES, JsonRows
from ingest.spec import Target
from ingest.values.rows import Rows
from tests.support.ingest.ingest_cases import PLENTY
from tests.support.ingest.odd_fields import rejected, typed

ALL = 10**9  # every line to the exact pass


@pytest.fixture(scope="module", params=["compiled", "plain"], autouse=True)
def core_on_and_off(request: pytest.FixtureRequest) -> Iterator[None]:
    """Every test of a module that imports this runs with the scanner, and without."""
    with pytest.MonkeyPatch.context() as patch:
        if request.param == "plain":
            patch.setattr(json_rows, "scanner_for", lambda targets, paths: None)
        yield


class Scanning(JsonRows):
    """The scanner, and the exact pass for all that it leaves in doubt."""

    def __init__(self, targets: Sequence[Target], known: Sequence[str]) -> None:
        super().__init__(targets, known, small=0)
        assert self._scanner is not None, "the compiled core is not there: pip install --editable ."
        self._small = MAX_LINES
        self.accepted = 0

    def _scanned(self, *given):  # type: ignore[no-untyped-def]
        found = super()._scanned(*given)
        self.accepted += len(found[0])
        return found


def outcome(decoder: JsonRows, block: LineBlock, targets: Sequence[Target]) -> tuple[object, ...]:
    """All that decoding a block makes known."""
    rejects = Rejects(PLENTY)
    rows: Rows = decoder.decode(block, "f", rejects)
    for array in rows.columns:
        array.validate(full=True)
    return typed(rows, targets), rejected(rejects), rejects.read, +rejects.ignored


def same(block: LineBlock, targets: Sequence[Target], known: Sequence[str] = ()) -> int:
    """Asserts that scanner and exact pass make the same of a block; how many lines the scanner took."""
    scanning, exact = Scanning(targets, known), JsonRows(targets, known, small=ALL)
    first = outcome(scanning, block, targets)
    assert first == outcome(exact, block, targets)
    accepted = scanning.accepted
    assert first == outcome(scanning, block, targets), "the second time, with names known"
    return accepted

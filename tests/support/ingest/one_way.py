"""JSON lines decoded by the compiled scanner and by the exact pass alone, compared."""

from __future__ import annotations

from collections.abc import Sequence

from sparkhaven.ingest.bad_rows import Rejects
from sparkhaven.ingest.content.lines import LineBlock
from sparkhaven.ingest.formats.json.json_rows import JsonDecoder
from sparkhaven.ingest.spec import Target
from sparkhaven.ingest.values.typed_rows import TypedRows
from tests.support.ingest.ingest_cases import PLENTY
from tests.support.ingest.odd_fields import rejected, typed


class Scanning(JsonDecoder):
    """Counts the lines that the scanner takes."""

    def __init__(self, targets: Sequence[Target], known: Sequence[str], *, strict: bool = False) -> None:
        super().__init__(targets, known, strict=strict)
        assert self._scanner is not None, "the compiled core is not there: pip install --editable ."
        self.accepted = 0

    def _scanned(self, *given):  # type: ignore[no-untyped-def]
        found = super()._scanned(*given)
        self.accepted += len(found[0])
        return found


def outcome(decoder: JsonDecoder, block: LineBlock, targets: Sequence[Target]) -> tuple[object, ...]:
    """All that decoding a block makes known."""
    rejects = Rejects(PLENTY)
    rows: TypedRows = decoder.decode(block, "f", rejects)
    assert not rejects.others, "no pass raised an exception"
    for array in rows.columns:
        array.validate(full=True)
    return typed(rows, targets), rejected(rejects), rejects.read, +rejects.ignored, +rejects.absent


def same(block: LineBlock, targets: Sequence[Target], known: Sequence[str] = ()) -> int:
    """Asserts that scanner and exact pass make the same of a block; how many lines the scanner took."""
    scanning, exact = Scanning(targets, known), JsonDecoder(targets, known, compiled=False)
    first = outcome(scanning, block, targets)
    assert first == outcome(exact, block, targets)
    accepted = scanning.accepted
    assert first == outcome(scanning, block, targets), "the second time, with names known"
    strict = Scanning(targets, known, strict=True), JsonDecoder(targets, known, compiled=False, strict=True)
    assert outcome(strict[0], block, targets) == outcome(strict[1], block, targets), "with other fields refused"
    return accepted

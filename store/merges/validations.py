"""Results of validations: what was found in a merged date, kept as evidence for what may be removed.

One file per merge, ``<merges of the table>/<value>/<generation>.validation``, the last validation of that merge.

The file has the frames of ``store.framing``: magic ``SHVVAL1``, as number the generation (equal to that in
the file name), and one frame, to the end of the file. Its payload has the keys ``table``, ``value``, ``generation``,
``rows``, ``epochs`` (stream -> epoch at which its rows were pinned), ``binding``, ``tolerant``, ``timeMs`` (since the
epoch) and ``results``, lists [rule, column, mode, measured, lower, upper, passed, message]; ``passed`` is null for a
rule that was not evaluated, numbers that JSON has no form for are texts. The rule of a validator of users is its
``module:function``. ``modes``, only if rules of the schema were not evaluated in other modes, has those that were.

``binding`` is the SHA-256, in hex, of what was validated: the inputs, outputs and digests of the merge, and the rules
of the schema, and ``modes`` where they are stored. A result whose binding is another one is stale: the date was merged
again, or the rules have changed. One with ``modes`` never stands for all rules.

*Writer.* The file is replaced as a whole (temporary file, sync, rename, sync of the directory). *Reader.* A missing
file is no validation; a damaged one is an error, never taken for a missing or a passed one.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

from sparkhaven.store.errors import ValidationFailedError
from sparkhaven.store.framing import RecordKind
from sparkhaven.store.merges.merge_records import MergeRecord
from sparkhaven.store.places import TablePlace
from sparkhaven.store.types.model import ValidatorRule

KIND = RecordKind(b"SHVVAL1\n", "validation result", "generation", "validate the date again, which replaces it")
FULL_DATABASE, FULL_INTRADAY, SIMPLE_TABLE = "FULL_DATABASE", "FULL_INTRADAY", "SIMPLE_TABLE"
Evidence = int | float | str | None


@dataclass(frozen=True, slots=True)
class RuleResult:
    """One rule and what came of it: measured value and bounds. ``passed`` is None for a rule that was not evaluated.

    ``mode`` says over which rows: the date's history, its intraday rows, or each location for itself.
    """

    rule: str
    column: str | None
    measured: Evidence
    lower: Evidence
    upper: Evidence
    passed: bool | None
    message: str = ""
    mode: str = FULL_DATABASE


@dataclass(frozen=True, slots=True)
class Validation:
    """All results of one date. ``generation`` is the merge that they are about, ``epochs`` those of its rows by stream.

    With ``tolerant`` rules that were not evaluated do not keep the validation from passing. ``modes``, if not empty:
    it is about these only, and rules of the schema state others.
    """

    table: str
    value: str
    generation: int
    rows: int
    results: tuple[RuleResult, ...]
    epochs: dict[str, int] = field(default_factory=dict)
    binding: str = ""
    tolerant: bool = False
    time_ms: int = 0
    modes: tuple[str, ...] = ()

    @property
    def failed(self) -> tuple[RuleResult, ...]:
        return tuple(result for result in self.results if result.passed is False)

    @property
    def unevaluated(self) -> tuple[RuleResult, ...]:
        return tuple(result for result in self.results if result.passed is None)

    @property
    def passed(self) -> bool:
        return not self.failed and (self.tolerant or not self.unevaluated)

    def require(self) -> Validation:
        """Itself, or a ValidationFailedError that names the rules that keep it from passing."""
        if self.passed:
            return self
        failed, open_ = self.failed, () if self.tolerant else self.unevaluated
        parts = [f"{len(failed)} of {len(self.results)} rules failed"] if failed else []
        parts += [f"{len(open_)} of {len(self.results)} rules were not evaluated"] if open_ else []
        again = f"sparkhaven validate {self.table} --dates {self.value}"
        raise ValidationFailedError(
            " and ".join(parts),
            where=f"{self.table} {self.value}, merge {self.generation}",
            expected="every rule evaluated and passed",
            found="; ".join(f"{r.rule}{f' {r.column}' if r.column else ''}: {r.message}" for r in (*failed, *open_)),
            hint=f"`{again}` validates again and lists measured values and bounds"
            if failed
            else f"`{again} --allow-unevaluated` accepts them. You can also remove them from the schema",
            phase="validate",
        )


def binding(record: MergeRecord, rules: Iterable[ValidatorRule], modes: Sequence[str] = ()) -> str:
    """A digest that identifies a merge and the rules of its validation; ``modes`` as a ``Validation`` has them."""
    identity = {
        "generation": record.generation,
        "inputs": [asdict(taken) for taken in record.inputs],
        "outputs": [[output.internal, output.rows] for output in record.outputs],
        "digests": record.proof.digests_out if record.proof else None,
        "rules": [[rule.name, rule.attributes] for rule in rules],
        **({"modes": list(modes)} if modes else {}),
    }
    return sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()


def validation_path(place: TablePlace, value: str, generation: int) -> Path:
    return place.merges / value / f"{generation}.validation"


def encode_validation(validation: Validation) -> bytes:
    """The bytes of a file; the same validation gives the same bytes."""
    results = [
        [r.rule, r.column, r.mode, *(_plain(v) for v in (r.measured, r.lower, r.upper)), r.passed, r.message]
        for r in validation.results
    ]
    payload = {
        "table": validation.table,
        "value": validation.value,
        "generation": validation.generation,
        "rows": validation.rows,
        "epochs": validation.epochs,
        "binding": validation.binding,
        "tolerant": validation.tolerant,
        "timeMs": validation.time_ms,
        "results": results,
        **({"modes": list(validation.modes)} if validation.modes else {}),
    }
    return KIND.encode(validation.generation, payload)


def _plain(value: Evidence) -> Evidence:
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def decode_validation(data: bytes, where: object) -> Validation:
    """A validation from the bytes of its file; CorruptFileError with the byte, or UnsupportedVersionError."""
    return KIND.decode(data, where, _from_json)


def _from_json(payload: Mapping[str, Any]) -> Validation:
    return Validation(
        payload["table"],
        payload["value"],
        payload["generation"],
        payload["rows"],
        tuple(_result(entry) for entry in payload["results"]),
        payload["epochs"],
        payload["binding"],
        payload["tolerant"],
        payload["timeMs"],
        tuple(payload.get("modes", ())),
    )


def _result(entry: list[Any]) -> RuleResult:
    rule, column, mode, measured, lower, upper, passed, message = entry
    if passed not in (True, False, None):
        raise ValueError(passed)
    return RuleResult(rule, column, measured, lower, upper, passed, message, mode)


def store_validation(place: TablePlace, validation: Validation) -> None:
    path = validation_path(place, validation.value, validation.generation)
    place.fs.replace(path, encode_validation(validation))


def load_validation(place: TablePlace, record: MergeRecord) -> Validation | None:
    path = validation_path(place, record.value, record.generation)
    if place.fs.stat(path) is None:
        return None
    validation = decode_validation(place.fs.read(path), path)
    named = (validation.table, validation.value, validation.generation)
    if named != (str(place.table), record.value, record.generation):
        raise KIND.damaged("is in a wrong directory", path, (str(place.table), record.value, record.generation), named)
    return validation

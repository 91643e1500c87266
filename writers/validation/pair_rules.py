"""Rules that compare two columns row by row.

Numbers compare with numbers, exactly, NaN above all others and equal to itself; texts with texts, instants with
instants. Null is equal to null and to nothing else; it is neither less nor greater than anything.
"""

from __future__ import annotations

import numpy as np

from sparkhaven.store.errors import SchemaParseError
from sparkhaven.store.expressions.predicate.expression import compare_columns
from sparkhaven.store.types.model import ValidatorRule
from sparkhaven.writers.validation.date_rows import Mask
from sparkhaven.writers.validation.rule_errors import NotEvaluatedError
from sparkhaven.writers.validation.rule_scope import Evaluate, Measure, Scope


def _holds(sign: str) -> Evaluate:
    def evaluate(scope: Scope, rule: ValidatorRule) -> Measure:
        names = [rule.attributes["column1"], rule.attributes["column2"]]
        columns = [scope.rows.column(name) for name in names]
        try:
            predicate = compare_columns(sign, *columns)
        except SchemaParseError as error:
            raise NotEvaluatedError(f"the two columns cannot be compared: {error.found}") from None
        wrong = rows = 0
        first: str | None = None
        for block in scope.rows.blocks(names):
            keep = block.kept(names, rule.attributes)
            holds: Mask = predicate.evaluate(block.batch(list(dict.fromkeys(names)))).to_numpy(zero_copy_only=False)
            left_null, right_null = (block.cells[name].null for name in names)
            if sign in ("==", "<=", ">="):
                holds = holds | (left_null & right_null)
            elif sign == "!=":
                holds = holds | (left_null ^ right_null)
            broken = keep & ~holds
            if first is None and broken.any():
                first = f", the first of them row {block.first + int(np.argmax(broken))} of location {block.location}"
            wrong += int(np.count_nonzero(broken))
            rows += int(np.count_nonzero(keep))
        return Measure(not wrong, wrong, 0, 0, f"{predicate.text} is false in {wrong} of {rows} rows{first or ''}")

    return evaluate


RULES: dict[str, Evaluate] = {
    "assertEqual": _holds("=="),
    "assertNotEqual": _holds("!="),
    "assertLess": _holds("<"),
    "assertLessEqual": _holds("<="),
    "assertGreater": _holds(">"),
    "assertGreaterEqual": _holds(">="),
}

"""A date with rows in two sources that is merged and validated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sparkhaven.store.merges.validations import Validation
from sparkhaven.writers.validation.date_validation import RuleChoice, validate_date
from sparkhaven.writers.validation.rows.date_rows import PASS, PassSizes
from tests.support.tables.intraday_rows import IntradayRows
from tests.support.writers.merge_cases import DAY, SCHEMA, as_table
from tests.support.writers.merge_runs import FS, merge


def validated(
    root: Path, rules: str, rows: list[dict[str, Any]], sizes: PassSizes = PASS
) -> tuple[IntradayRows, Validation]:
    """``rules``: elements of the schema's Validator."""
    xml = SCHEMA.replace(b"</Table>", f"<Validator>{rules}</Validator></Table>".encode())
    db = IntradayRows(root, xml, fs=FS)
    db.commit({("a", DAY): as_table(rows[:7]), ("b", DAY): as_table(rows[7:])})
    merge(db.layout)
    return db, validate_date(db.place, DAY, choice=RuleChoice(sizes=sizes))

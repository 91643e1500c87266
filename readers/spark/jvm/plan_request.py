"""How Java's source asks Python's for a plan, by three options of a read that it adds to those of the user.

``sparkhaven.plan`` names a file that does not exist. ``schema`` writes it: a plan (``plan_file``), or ``SHVREASN`` and
in UTF-8 the reason why Python reads. Java takes it and removes it as soon as ``schema`` has ended, with an error too.
``sparkhaven.jar`` is the digest of the sources of Java's jar: for another one than ours no plan is made.
``sparkhaven.reader`` is the reader that the session's setting names; the option ``reader`` has precedence.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sparkhaven.readers.arrow.pinned_table import PinnedTable
from sparkhaven.readers.spark.jvm.jar import jar_digest
from sparkhaven.readers.spark.jvm.plan_file import write_plan
from sparkhaven.readers.spark.jvm.planning import make_plan, refused
from sparkhaven.readers.spark.options import DEFAULT_READER, ReadOptions
from sparkhaven.store.errors import SettingsError

PLAN, JAR, READER = "sparkhaven.plan", "sparkhaven.jar", "sparkhaven.reader"
REASON = b"SHVREASN"


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """``path``: where the answer belongs. ``jar``: the digest of the sources of the jar that asks. ``reader``: the
    option of that name, else what the session's setting names.
    """

    path: Path
    jar: str
    reader: str

    def answer(self, table: PinnedTable, options: ReadOptions) -> bool:
        """Writes the plan or the reason; whether Java reads. SettingsError: the option asks for Java, which cannot."""
        plan = self._refusal(options) or make_plan(table, options)
        write_plan(self.path, plan if isinstance(plan, bytes) else REASON + plan.encode())
        return isinstance(plan, bytes)

    def _refusal(self, options: ReadOptions) -> str | None:
        try:
            ours = jar_digest()
        except SettingsError as error:
            reason = error.what
        else:
            if self.jar == ours:
                return None
            reason = "the jar in the session is not of this installation's release"
        if options.reader == "jvm":
            raise refused(reason)
        # the process that plans may have imported another sparkhaven than the one that the session's jar is of
        warnings.warn(f"Spark reads tables by the Python of {Path(__file__).parents[3]}: {reason}", stacklevel=2)
        return reason


def split_request(options: Mapping[str, str]) -> tuple[dict[str, str], PlanRequest | None]:
    """The options of the user by their names in small letters, and what Java's source asks for.

    None: Spark has loaded Python's source alone.
    """
    given = {name.lower(): text for name, text in options.items()}
    plan, jar, setting = (given.pop(name, None) for name in (PLAN, JAR, READER))
    if plan is None or jar is None:
        return given, None
    return given, PlanRequest(Path(plan), jar, given.get("reader") or setting or DEFAULT_READER)

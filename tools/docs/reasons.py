"""Codes of rejected rows, from the enumeration that the decoders use."""

from __future__ import annotations

from sparkhaven.store.quarantine.reasons import Reason
from tools.docs.markdown import code, table


def reason_table() -> str:
    """Each code in alphabetical order: what it means, and what to do."""
    return table(
        ("code", "meaning", "what to do"),
        ((code(reason.value), reason.meaning, reason.remedy) for reason in sorted(Reason)),
    )

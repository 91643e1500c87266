"""Rules that errors and findings cite by their code, from the tables of the code."""

from __future__ import annotations

from sparkhaven.store.epochs.state.resume_rules import ResumeRule
from sparkhaven.store.schema.findings import VIOLATIONS
from tools.docs.markdown import code, table


def resume_rule_table() -> str:
    """Each resume rule: what is proposed, and what the stream does."""
    return table(("violation", "what is proposed", "what the stream does"), map(_resume_rule, ResumeRule))


def schema_code_table() -> str:
    """Each code of a schema file with what is wrong."""
    return table(
        ("code", "severity", "violation"), (_schema_code(*item) for item in sorted(VIOLATIONS.items(), key=_number))
    )


def _resume_rule(rule: ResumeRule) -> tuple[str, str, str]:
    return str(rule), rule.situation, rule.resolution


def _schema_code(name: str, violation: str) -> tuple[str, str, str]:
    return code(name), "error" if name.startswith("E") else "warning", violation


def _number(item: tuple[str, str]) -> tuple[str, str]:
    return item[0][1:], item[0]

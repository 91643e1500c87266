"""The rule of duplicates of one merge: as its options say, as the date was merged last, or as the schema says."""

from __future__ import annotations

from sparkhaven.store.errors import SettingsError
from sparkhaven.store.merges.merge_records import MergeRecord
from sparkhaven.store.types.dedupe import DedupeRule
from sparkhaven.store.types.model import TableSchema, dedupe_fault

NO_RULE = DedupeRule(())


def parse_dedupe(
    schema: TableSchema,
    *,
    dedupe: str | None = None,
    keep: str | None = None,
    last_by: str | None = None,
    upsert: str | None = None,
    order_by: str | None = None,
) -> DedupeRule | None:
    """The rule that options give; None: they give none. ``dedupe`` is ``none`` for no rule. SettingsError."""
    given = {"--dedupe": dedupe, "--last-by": last_by, "--upsert": upsert}
    named = [option for option, value in given.items() if value is not None]
    if not named and keep is None and order_by is None:
        return None
    if dedupe == "none" and len(named) == 1 and keep is None and order_by is None:
        return NO_RULE
    one = len(named) == 1 and (keep is None or dedupe is not None) and (order_by is None or upsert is None)
    if not one:
        words = [*named, *(["--keep"] if keep is not None else []), *(["--order-by"] if order_by is not None else [])]
        raise SettingsError(
            "options contradict each other",
            expected="one of --dedupe (with --keep, --order-by), --last-by (with --order-by), --upsert",
            found=" ".join(words),
            hint="see `sparkhaven merge --help`",
        )
    if keep not in (None, "first", "last"):
        raise SettingsError("unknown --keep", expected="first or last", found=repr(keep))
    (option,) = named
    keys = tuple(part.strip() for part in (given[option] or "").split(",") if part.strip())
    last = keep == "last" or dedupe is None
    return _checked(DedupeRule(keys, "last" if last else "first", order_by, upsert is not None), schema, option)


def rule_of(base: MergeRecord | None, given: DedupeRule | None, schema: TableSchema) -> DedupeRule:
    """The rule for a date after its merge ``base``; without keys if there is none. SettingsError: it cannot be used."""
    if given is not None:
        return given
    if base is not None and base.run.dedupe is not None:
        last = base.run.dedupe.renamed(schema.names_at(base.schema_version))
        if not last.keys:
            return NO_RULE
        return _checked(last, schema, f"the rule of merge {base.generation} of {base.value}")
    return schema.dedupe or NO_RULE


def recorded_rule(base: MergeRecord | None, given: DedupeRule | None, rule: DedupeRule) -> DedupeRule | None:
    """What the record of a merge by ``rule`` says; None where there is none and nobody has chosen that."""
    chosen = given is not None or (base is not None and base.run.dedupe is not None)
    return rule if rule.keys or chosen else None


def _checked(rule: DedupeRule, schema: TableSchema, where: str) -> DedupeRule:
    fault = dedupe_fault(rule, schema.columns)
    if fault is not None:
        raise SettingsError(
            "duplicates cannot be told by these columns",
            where=where,
            expected=fault[0],
            found=fault[1],
            hint=f"state the rule with --dedupe COLUMN, or --dedupe none. `sparkhaven schema show {schema.full_name}`"
            " lists the columns",
        )
    return rule

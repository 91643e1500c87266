"""``MergeAttributes``: the compression of a merge's files, which rows it leaves out, and where the others go.

``dedupeKeys``, ``lastBy`` and ``upsertInto`` have names of columns between commas, and a schema states one of them.
Beside ``dedupeKeys`` may stand ``keep``, ``first`` or ``last``; beside it and ``lastBy`` a column ``orderBy``.
``distribution`` is one of ``DISTRIBUTIONS``. All of these are this project's own.
"""

from __future__ import annotations

from sparkhaven.store.schema.document.vocabulary import MERGE_CODECS, one_of
from sparkhaven.store.schema.findings import FindingCollector
from sparkhaven.store.schema.xml_tree import Element
from sparkhaven.store.types.dedupe import DedupeRule
from sparkhaven.store.types.model import DISTRIBUTIONS, MERGE_FORMATS, Column, Distribution, dedupe_fault

_KEYS = ("dedupeKeys", "lastBy", "upsertInto")


def merge_codec(root: Element, default_format: str, findings: FindingCollector) -> str | None:
    """The compression of Parquet files that a schema asks for."""
    chosen: str | None = None
    for element in root.all("MergeAttributes"):
        target = one_of(element, "format", MERGE_FORMATS, findings) or default_format
        codec = one_of(element, "codec", MERGE_CODECS, findings)
        if codec is not None and target == "DeephavenV1" and codec != "UNCOMPRESSED":
            findings.add(
                "E152",
                element,
                expected="UNCOMPRESSED, or no codec, for DeephavenV1",
                found=codec,
                hint='column files are not compressed. Choose format="Parquet" or drop the codec',
            )
        elif codec is not None and target == "Parquet" and chosen is None:
            chosen = codec
    return chosen


def merge_dedupe(root: Element, columns: tuple[Column, ...], findings: FindingCollector) -> DedupeRule | None:
    """The rule by which merges leave rows out; None without one."""
    stated = [e for e in root.all("MergeAttributes") if {*_KEYS, "keep", "orderBy"} & {*e.attributes}]
    if not stated:
        return None
    element = stated[0]
    named = [name for name in _KEYS if name in element.attributes]
    keep = one_of(element, "keep", ("first", "last"), findings)
    order_by = element.attributes.get("orderBy")
    alone = len(named) == len(stated) == 1
    if not alone or (keep and named != ["dedupeKeys"]) or (order_by and named == ["upsertInto"]):
        findings.add(
            "E156",
            stated[-1],
            expected="one of dedupeKeys (with keep, orderBy), lastBy (with orderBy), upsertInto",
            found=", ".join(
                name for e in stated for name in e.attributes if name not in ("format", "codec", "distribution")
            ),
            hint="state one rule for the table",
        )
        return None
    keys = tuple(part.strip() for part in element.attributes[named[0]].split(",") if part.strip())
    last = keep == "last" or named != ["dedupeKeys"]
    rule = DedupeRule(keys, "last" if last else "first", order_by, named == ["upsertInto"])
    fault = dedupe_fault(rule, columns)
    if fault is not None:
        findings.add("E156", element, expected=fault[0], found=fault[1], hint="name columns that can be compared")
        return None
    return rule


def merge_distribution(root: Element, findings: FindingCollector) -> Distribution | None:
    """How merges choose storage partitions: as the first element with the attribute says; None without one."""
    stated = [one_of(element, "distribution", DISTRIBUTIONS, findings) for element in root.all("MergeAttributes")]
    first = next((word for word in stated if word is not None), None)
    return next((known for known in DISTRIBUTIONS if known == first), None)

"""Whole columns of ISO texts to Instants, by Arrow where all have the same form, by pattern where some are odd."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sparkhaven.ingest.spec.stream_spec import Target
from sparkhaven.ingest.values.arrow_columns import (
    Mask,
    Typed,
    compact,
    either,
    instants,
    join,
    mask_of,
    outside,
    some,
    try_cast,
)
from sparkhaven.ingest.values.instants import INSTANT_HIGH
from sparkhaven.ingest.values.zones import zone_table
from sparkhaven.store.instants import NS_PER_SECOND

_DAY = (  # the days that there are, in the years from 1700 to 2199
    r"(?:(?:1[7-9]|2[01])[0-9]{2}-(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])|(?:0[13-9]|1[0-2])-(?:29|30)"
    r"|(?:0[13578]|1[02])-31)|(?:(?:1[7-9]|2[01])(?:0[48]|[2468][048]|[13579][26])|2000)-02-29)"
)
_TIME = r"[T ](?:[01][0-9]|2[0-3])(?::[0-5][0-9](?::[0-5][0-9](?:\.[0-9]{1,9})?)?)?"
_OFFSET = r"(?:Z|[+-](?:[01][0-9]|2[0-3])(?::?[0-5][0-9])?)"
_CLOCK = f"(?:{_TIME}{_OFFSET}?)?"
_ISO_NEAR = f"^{_DAY}{_CLOCK}$"
_DAY_FAR = (  # days of 2263 to 9999, but for leap days
    r"(?:226[3-9]|22[7-9][0-9]|2[3-9][0-9]{2}|[3-9][0-9]{3})-(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])"
    r"|(?:0[13-9]|1[0-2])-(?:29|30)|(?:0[13578]|1[02])-31)"
)
_ISO_FAR, _ISO_FAR_ZONED = f"^{_DAY_FAR}{_CLOCK}$", f"^{_DAY_FAR}{_TIME}{_OFFSET}$"
_SAFE_LOW, _SAFE_HIGH = -9_214_560_000 * NS_PER_SECOND, 9_214_646_400 * NS_PER_SECOND  # 1678 to 2262-01-01, in ns


def iso_instants(texts: pa.StringArray, target: Target) -> Typed:
    """Instants of ISO texts, all with an offset, all without, or mixed; far ones as the column has them."""
    if target.far is None:
        return _instants(texts, target)
    far = pc.match_substring_regex(texts, _ISO_FAR if target.zone is not None else _ISO_FAR_ZONED).fill_null(False)
    if not pc.any(far).as_py():
        return _instants(texts, target)
    near, doubt = _instants(compact(pc.if_else(far, None, texts)), target)
    end = pa.scalar(None if target.far == "null" else INSTANT_HIGH, pa.int64())
    return pc.if_else(far, end, near.view(pa.int64())).view(near.type), doubt


def _instants(texts: pa.StringArray, target: Target) -> Typed:
    zoned, doubt = try_cast(texts, pa.timestamp("ns", "UTC"), None)
    if doubt is None:
        return in_years(zoned)
    if target.zone is None:
        return _mixed(texts, target)
    local, doubt = try_cast(texts, pa.timestamp("ns"), None)
    if doubt is None:
        return in_years(*from_local(local, target.zone))
    return _mixed(texts, target)


def _mixed(texts: pa.StringArray, target: Target) -> Typed:
    """Instants where some texts have an offset, some have none, and some may be no instants at all."""
    has_offset = pc.match_substring_regex(texts, r"(Z|[+-][0-9]{2}(:?[0-9]{2})?)$")
    has_time = pc.match_substring_regex(texts, r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}")
    with_offset = pc.and_(has_offset, has_time)
    simple = pc.match_substring_regex(texts, _ISO_NEAR)
    zoned = pc.cast(pc.if_else(pc.and_(simple, with_offset), texts, None), pa.timestamp("ns", "UTC"))
    doubt = ~mask_of(simple, null=True)
    plain = pc.and_(simple, pc.invert(with_offset))
    if target.zone is None:
        doubt |= mask_of(plain)
        return join(in_years(zoned), some(doubt))
    local, gap = from_local(pc.cast(pc.if_else(plain, texts, None), pa.timestamp("ns")), target.zone)
    merged = pc.coalesce(zoned, local)
    return join(in_years(merged), either(gap, some(doubt)))


def from_local(local: pa.Array, zone: str) -> Typed:
    """Local times of a zone as Instants; times that the zone never showed are in doubt."""
    null = mask_of(local.is_null()) if local.null_count else None
    plain = local.view(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    far = (plain < _SAFE_LOW) | (plain > _SAFE_HIGH)
    utc, gap = zone_table(zone).to_utc(np.where(far, 0, plain))
    gap |= far
    if null is not None:
        gap &= ~null
    return instants(utc, null), some(gap)


def in_years(values: pa.Array, doubt: Mask | None = None) -> Typed:
    """Leaves Instants outside 1678 to 2261 in doubt, where an offset might have wrapped."""
    return values, either(doubt, outside(values.view(pa.int64()), _SAFE_LOW, _SAFE_HIGH))

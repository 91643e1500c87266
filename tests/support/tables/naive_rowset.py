"""Row sets decoded one byte after the other, as the format reference states them."""

from __future__ import annotations


def naive_ranges(data: bytes) -> list[tuple[int, int]]:
    """Ranges as (first row, last row)."""
    found: list[tuple[int, int]] = []
    at, last = 0, 0

    def take(size: int) -> int:
        nonlocal at
        at += size
        return int.from_bytes(data[at - size : at], "big", signed=True)

    def give(delta: int) -> None:
        nonlocal last
        if delta < 0:
            last -= delta
            found[-1] = (found[-1][0], last)
        else:
            last += delta
            found.append((last, last))

    while True:
        byte = take(1) & 0xFF
        if byte == 0x20:
            assert at == len(data)
            return found
        number = take({1: 2, 2: 4, 3: 8, 4: 1}[byte & 7])
        if byte >> 3 == 1:
            give(number)
        else:
            for _ in range(number):
                give(take(2 if byte >> 3 == 2 else 1))

"""What the files of a directory hold, and bits of it changed."""

from __future__ import annotations

from pathlib import Path


def contents(directory: Path) -> dict[Path, bytes]:
    """Every file below a directory, by its path."""
    return {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def flipped(data: bytes, byte: int, mask: int = 1) -> bytes:
    """The data with the bits of ``mask`` changed in one byte; a negative ``byte`` counts from the end."""
    changed = bytearray(data)
    changed[byte] ^= mask
    return bytes(changed)


def flip(path: Path, byte: int, mask: int = 1) -> None:
    """Changes the bits of ``mask`` in one byte of a file."""
    path.write_bytes(flipped(path.read_bytes(), byte, mask))


def hidden(directory: Path) -> list[str]:
    """Names with a dot first, as all that is staged, replaced or retired has; FileNotFoundError for no directory."""
    return sorted(path.name for path in directory.iterdir() if path.name.startswith("."))

"""Protobuf by protoc itself: descriptor sets and payloads that are none of our making."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path


def compiled(directory: Path, text: str, *, whole: bool = True) -> bytes:
    """The FileDescriptorSet of a .proto text, with what it imports if ``whole``."""
    (directory / "made.proto").write_text(text)
    options = ["--include_imports"] if whole else []
    _protoc(directory, [*options, f"--descriptor_set_out={directory / 'made.desc'}", "made.proto"])
    return (directory / "made.desc").read_bytes()


def encoded(directory: Path, text: str, message: str, values: str) -> bytes:
    """The payload of a message in protoc's text format."""
    (directory / "made.proto").write_text(text)
    return _protoc(directory, [f"--encode={message}", "made.proto"], values.encode())


def encoded_all(directory: Path, text: str, message: str, values: Sequence[str]) -> list[bytes]:
    """The payloads of many messages by one call: as fields of one more message, and cut out of it."""
    whole = f"{text}\nmessage All {{ repeated {message} one = 1; }}"
    package = f"{message.rpartition('.')[0]}." if "." in message else ""
    data = encoded(directory, whole, f"{package}All", " ".join(f"one {{ {value} }}" for value in values))
    found, at = [], 0
    while at < len(data):
        size, shift, at = 0, 0, at + 1  # past the tag
        while True:
            size |= (data[at] & 0x7F) << shift
            at, shift = at + 1, shift + 7
            if data[at - 1] < 0x80:
                break
        found.append(data[at : at + size])
        at += size
    assert len(found) == len(values)
    return found


def _protoc(directory: Path, words: list[str], given: bytes = b"") -> bytes:
    spec = find_spec("grpc_tools")
    assert spec is not None and spec.submodule_search_locations
    known = Path(next(iter(spec.submodule_search_locations))) / "_proto"
    line = [sys.executable, "-m", "grpc_tools.protoc", f"-I{directory}", f"-I{known}", *words]
    done = subprocess.run(line, input=given, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout

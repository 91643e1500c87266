"""What Python knows of the core is made from its headers, and a declaration that is not understood is refused."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import pytest

from native.abi import main, module

VERSION = "#define SH_ABI 7\n"
HEADER = """#include "abi.h"
#define TWO(a) \\
    SH_API int64_t sh_never(a)

/* Kinds; SH_API int64_t sh_comment(void); */
enum sh_kind {
    SH_FIRST, /* one */
    SH_SECOND
};

struct sh_two_words {
    uint64_t key; /* struct sh_none { */
    int32_t length, number;
    const uint8_t *bytes, *stop;
    const char *name;
    struct sh_other *other;
};

typedef int64_t sh_call(void *message);

SH_API void sh_nothing(void);
SH_API const char *sh_text(const struct sh_two_words *words, uint64_t seed,
                           const void *const *all, sh_call *call);
"""


def executed(*headers: str) -> dict[str, Any]:
    """What the module for some headers defines."""
    defined: dict[str, Any] = {}
    exec(module([VERSION, *headers]), defined)
    return defined


def test_the_module_is_made_of_these_headers() -> None:
    assert main(["--check"]) == 0


def test_a_stale_module_is_refused_and_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stale = tmp_path / "abi.py"
    stale.write_text("ABI = 1\n")
    assert main(["--check"], stale) == 1 and stale.read_text() == "ABI = 1\n"
    assert f"{stale} is not of the headers in native/: python -m native.abi" in capsys.readouterr().err
    assert main([], stale) == 0 and main(["--check"], stale) == 0


def test_constants_structures_and_functions() -> None:
    defined = executed(HEADER)
    assert (defined["ABI"], defined["FIRST"], defined["SECOND"]) == (7, 0, 1)
    assert defined["TwoWordsLayout"]._fields_ == [
        ("key", ctypes.c_uint64),
        ("length", ctypes.c_int32),
        ("number", ctypes.c_int32),
        ("bytes", ctypes.c_void_p),
        ("stop", ctypes.c_void_p),
        ("name", ctypes.c_char_p),
        ("other", ctypes.c_void_p),
    ]
    pointer = ctypes.c_void_p
    assert defined["SIGNATURES"] == {
        "sh_nothing": (None, []),
        "sh_text": (ctypes.c_char_p, [pointer, ctypes.c_uint64, pointer, pointer]),
    }


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("enum sh_kind { SH_FIRST = 3 };", r"enum sh_kind: SH_FIRST = 3: expected SH_"),
        ("struct sh_pair {\n    int64_t ends[2];\n};", r"struct sh_pair: int64_t: expected nothing else"),
        ("struct sh_pair {\n    short size;\n};", r"struct sh_pair: short: expected int64_t\|"),
        ("SH_API int64_t sh_one(int64_t);", r"sh_one: int64_t: expected"),
        ("SH_API int64_t sh_one(double value);", r"sh_one: double: expected int64_t\|"),
        ("SH_API struct sh_pair sh_one(void);", r"SH_API: SH_API struct sh_pair sh_one"),
    ],
)
def test_a_declaration_that_is_not_understood(header: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        executed(header)


def test_one_header_has_the_version() -> None:
    with pytest.raises(ValueError, match="values to unpack"):
        module([VERSION, VERSION])

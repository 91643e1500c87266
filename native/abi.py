"""Writes what Python knows of the core, ``store/native/abi.py``, from its headers: ``python -m native.abi [--check]``.

Headers that include ``abi.h`` are read: each ``SH_API`` function, structure, named enumeration, and ``SH_ABI``. An
address is ``c_void_p``, a pointer to ``const char`` bytes of Python. ValueError: a header declares it in another way.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from native.build import PACKAGE, source_files

MODULE = PACKAGE / "abi.py"
LINE = 120
CTYPES = {"int64_t": "_I64", "uint64_t": "_U64", "int32_t": "_I32", "size_t": "_SIZE", "void": "None"}
HEAD = '''"""What Python knows of the compiled core: its version, constants, structures and functions.

Made from the headers of ``native/`` by ``python -m native.abi``: do not edit.
"""

from __future__ import annotations

import ctypes

_I32, _I64, _U64 = ctypes.c_int32, ctypes.c_int64, ctypes.c_uint64
_SIZE, _PTR, _BYTES = ctypes.c_size_t, ctypes.c_void_p, ctypes.c_char_p
'''
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)
_DIRECTIVE = re.compile(r"^#(?:\\\n|.)*$", re.MULTILINE)
_VERSION = re.compile(r"^#define SH_ABI (\d+)$", re.MULTILINE)
_FUNCTION = re.compile(r"SH_API ((?:const )?\w+ \**)(\w+)\(([^;]*)\);")
_STRUCTURE = re.compile(r"^struct sh_(\w+) \{(.*?)^\};", re.MULTILINE | re.DOTALL)
_ENUMERATION = re.compile(r"^enum sh_(\w+) \{(.*?)\};", re.MULTILINE | re.DOTALL)
_MEMBERS = re.compile(r"((?:const )?(?:struct )?\w+) (\**\w+(?:,\s*\**\w+)*);")
_PARAMETER = re.compile(r"((?:const )?(?:struct )?\w+ (?:\*|\*const \*)?)\w+")


def headers() -> Iterator[Path]:
    """The headers that Python has a part in."""
    for path in source_files("*.h"):
        if path.name == "abi.h" or '#include "abi.h"' in path.read_text(encoding="utf-8"):
            yield path


def module(texts: list[str]) -> str:
    """The text of the Python module for headers of these texts."""
    (version,) = (number for text in texts for number in _VERSION.findall(text))
    plain = [_DIRECTIVE.sub("", _COMMENT.sub("", text)) for text in texts]
    parts = [HEAD, f"ABI = {version}", *(part for text in plain for part in _enumerations(text))]
    parts += [part for text in plain for part in _structures(text)]
    parts += ["", "", "SIGNATURES: dict[str, tuple[type | None, list[type]]] = {"]
    parts += [part for text in plain for part in _functions(text)]
    return "\n".join([*parts, "}", ""])


def _enumerations(text: str) -> Iterator[str]:
    for name, body in _ENUMERATION.findall(text):
        constants = [constant.strip() for constant in body.split(",")]
        _expect(f"enum sh_{name}", constants, r"SH_\w+")
        names = [constant.removeprefix("SH_") for constant in constants]
        line = f"{', '.join(names)} = range({len(names)})"
        if len(line) > LINE:
            line = f"(\n{''.join(f'    {one},{chr(10)}' for one in names)}) = range({len(names)})"
        yield f"\n# enum sh_{name}\n{line}"


def _structures(text: str) -> Iterator[str]:
    for name, body in _STRUCTURE.findall(text):
        _expect(f"struct sh_{name}", _MEMBERS.sub("", body).split(), "")
        yield f'\n\nclass {name.title().replace("_", "")}Layout(ctypes.Structure):\n    """``struct sh_{name}``."""\n'
        yield "    _fields_ = ["
        for kind, members in _MEMBERS.findall(body):
            for member in re.split(r",\s*", members):
                stars = member.count("*") * "*"
                yield f'        ("{member.lstrip("*")}", {_ctype(f"struct sh_{name}", f"{kind} {stars}")}),'
        yield "    ]"


def _functions(text: str) -> Iterator[str]:
    functions = _FUNCTION.findall(text)
    _expect("SH_API", [line for line in _FUNCTION.sub("", text).splitlines() if "SH_API" in line], "")
    for result, name, parameters in functions:
        words = [] if parameters == "void" else [" ".join(word.split()) for word in parameters.split(",")]
        _expect(name, words, _PARAMETER.pattern)
        kinds = ", ".join(_ctype(name, _PARAMETER.sub(r"\1", word)) for word in words)
        yield f'    "{name}": ({_ctype(name, result)}, [{kinds}]),'


def _ctype(owner: str, kind: str) -> str:
    """The name in the module of a C type, whose stars stand behind a space."""
    if kind == "const char *":
        return "_BYTES"
    if "*" in kind:
        return "_PTR"
    _expect(owner, [kind.strip()], "|".join(CTYPES))
    return CTYPES[kind.strip()]


def _expect(owner: str, words: Iterable[str], pattern: str) -> None:
    for word in words:
        if not re.fullmatch(pattern, word):
            raise ValueError(f"{owner}: {word}: expected {pattern or 'nothing else'}")


def main(arguments: list[str] | None = None, target: Path = MODULE) -> int:
    """0: the module is that of the headers; 1: with ``--check``, it is stale."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="change nothing, say whether the module is stale")
    check = parser.parse_args(arguments).check
    text = module([path.read_text(encoding="utf-8") for path in headers()])
    if target.exists() and target.read_text(encoding="utf-8") == text:
        return 0
    if check:
        print(f"{target} is not of the headers in native/: python -m native.abi", file=sys.stderr)
        return 1
    target.write_text(text, encoding="utf-8")
    print(target)
    return 0


if __name__ == "__main__":
    sys.exit(main())

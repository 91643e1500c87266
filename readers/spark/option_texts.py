"""Options of ``format("deephaven")``, of reads and of writes: values as texts and back, and the form of their errors.

Spark passes all options as texts. Their names are not case-sensitive; an unknown one is an error.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from sparkhaven.store.errors import SettingsError

WHERE = 'format("deephaven")'
NAMES = 'names like A, B or ["A", "B"]'
VIEW = "CREATE TEMPORARY VIEW v USING deephaven OPTIONS (root '/data/db', path 'NS.T')"
SAVE = 'df.write.format("deephaven").mode("append").options(...).save("NS.T")'
OF_CATALOG = frozenset({"location", "owner", "provider", "external", "is_managed_location", "comment", "collation"})


def option_text(value: object) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(value).lower()
    return json.dumps(value if isinstance(value, int | dict) else list(value))  # type: ignore[call-overload]


def given_texts(options: Mapping[str, str], known: Iterable[str], others: Collection[str] = ()) -> dict[str, str]:
    """The texts by the names in ``known``; ``others``: lower-case names of options of Spark's own, which are left out.

    SettingsError for an unknown name, and for a table of Spark's catalog.
    """
    declared = {name.lower(): name for name in known}
    texts: dict[str, str] = {}
    for name, text in options.items():
        lower = name.lower()
        if lower in declared and text is not None:
            texts[declared[lower]] = text
        elif lower in OF_CATALOG or lower.startswith("option."):
            raise of_catalog(f"{name} = {text}")
        elif lower not in declared and lower not in others:
            near = get_close_matches(lower, declared, 1, 0.6)
            raise SettingsError(
                f"unknown option {name!r}",
                where=WHERE,
                expected=", ".join(declared.values()),
                found=name,
                hint=f"did you mean {declared[near[0]]!r}?" if near else "remove it",
            )
    return texts


def truth(name: str, text: str) -> bool:
    """``true`` or ``false``, in any case of letters; else a SettingsError."""
    if text.lower() not in ("true", "false"):
        raise unfit(name, text, "true or false")
    return text.lower() == "true"


def whole_number(name: str, text: str) -> int:
    """A whole number from 1 on; else a SettingsError."""
    if not text.strip().isdecimal() or int(text) < 1:
        raise unfit(name, text, "a whole number from 1 on")
    return int(text)


def names(name: str, text: str, expected: str = NAMES) -> tuple[str, ...]:
    """Names, separated by commas or as a JSON list of texts; else a SettingsError."""
    if not text.lstrip().startswith("["):
        return tuple(name.strip() for name in text.split(",") if name.strip())
    listed = json_value(name, text, expected)
    if not isinstance(listed, list) or not all(isinstance(entry, str) for entry in listed):
        raise unfit(name, text, "a list of names", expected)
    return tuple(listed)


def json_value(name: str, text: str, expected: str) -> Any:
    """Any JSON; else a SettingsError."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise unfit(name, text, f"JSON: {error}", expected) from None


def json_object(name: str, text: str, expected: str) -> Mapping[str, Any]:
    """An object in JSON; else a SettingsError."""
    parsed = json_value(name, text, expected)
    if not isinstance(parsed, dict):
        raise unfit(name, text, "an object in JSON", expected)
    return parsed


def missing(name: str, expected: str, hint: str | None = None) -> SettingsError:
    return SettingsError(f"option {name!r} is missing", where=WHERE, expected=expected, hint=hint)


def no_table(verb: str, call: str, name: str | None = None) -> SettingsError:
    """The error for a read or write without the name of a table as ``path``, the argument of ``call``."""
    return SettingsError(
        f"the {verb} names no table",
        where=WHERE,
        expected=f'.{call}("Namespace.Table")',
        found=name,
        hint=f"tables of Spark's catalog keep no options. Read by {VIEW}, write by {SAVE}",
    )


def of_catalog(option: str) -> SettingsError:
    """The error for CREATE TABLE and what else makes or reads a table of Spark's catalog."""
    return SettingsError(
        "a table of Spark's catalog cannot have this format. The catalog keeps no options",
        where=WHERE,
        expected=VIEW,
        found=option,
        hint=f"a temporary view is for reading. To write, call {SAVE}",
    )


def unfit(name: str, text: str, what: str, expected: str | None = None, hint: str | None = None) -> SettingsError:
    """The error for a text that is not ``what``. ``expected``: an example or the form; default: ``what``."""
    return SettingsError(
        f"option {name!r} is not {what}", where=WHERE, expected=expected or what, found=repr(text), hint=hint
    )

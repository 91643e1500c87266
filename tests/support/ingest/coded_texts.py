"""JSON texts for columns whose type has a codec, and what becomes of each: a value, or the code of a bad row."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np

NO, OVER, INEXACT, NULLED = (
    "not-a-value-of-the-type",
    "overflow",
    "not-exactly-representable",
    "equals-the-null-value-of-the-type",
)
JSON_TYPE, TYPE, FRACTION = "wrong-json-type", "wrong-type", "has-a-fraction"
LAST, LAST_LONG = 86_400 * 10**9 - 1, 2**63 - 1
MIN_FLOAT, MIN_DOUBLE = -3.4028234663852886e38, -1.7976931348623157e308
DAY = dt.date(2024, 2, 29)

# column type -> JSON text -> value or code
JSON: dict[str, dict[str, Any]] = {
    "LocalDate Compact": {
        '"2024-02-29"': DAY,
        "null": None,
        '"2023-02-29"': NO,
        '"0000-01-01"': -719_528,
        '"9999-12-31"': dt.date(9999, 12, 31),
        '"10000-01-01"': NO,
        '"2024-02-29T00:00:00"': NO,
        '" 2024-02-29"': NO,
        '"\\u0032024-02-29"': DAY,
        "20240229": NO,
        "true": NO,
        "[]": NO,
        "{}": NO,
    },
    "LocalTime 3": {
        '"23:59:59.999"': LAST - 999_999,
        '"13:30"': 48_600 * 10**9,
        '"13:30:00.1230"': 48_600 * 10**9 + 123_000_000,
        '"13:30:00.0001"': INEXACT,
        '"24:00:00"': NO,
        '"23:59:60"': NO,
        "48600": NO,
    },
    "LocalTime": {'"23:59:59.999999999"': LAST, '"13:30:00.1234567891"': INEXACT},
    "BigDecimal 6,2": {
        "12.34": Decimal("12.34"),
        '"12.34"': Decimal("12.34"),
        "-0.00": Decimal("0.00"),
        "1e3": Decimal("1000.00"),
        "12.340": Decimal("12.34"),
        "12.345": INEXACT,
        "1e-400": INEXACT,
        "10000": OVER,
        "1e99999999999999999999": OVER,
        '"NaN"': NO,
        '"1,234"': NO,
        '""': NO,
        "false": NO,
        "[1]": NO,
    },
    "BigDecimal 6,2,allowRounding": {"0.005": Decimal("0.01"), "-0.005": Decimal("-0.01"), "9999.995": OVER},
    "BigDecimal": {"1e3": "1000", '"0.10"': "0.1", "1e10001": OVER, "1e99999999999999999999": OVER, '"x"': NO},
    "BigInteger 20": {
        "18446744073709551615": Decimal(2**64 - 1),
        "100000000000000000000": OVER,
        "1.5": INEXACT,
        "2.0": Decimal(2),
    },
    "BigInteger": {"123456789012345678901234567890": "123456789012345678901234567890", "0.5": INEXACT},
    "byte[]": {
        '"AQI="': b"\x01\x02",
        "[1,-128,127]": b"\x01\x80\x7f",
        "[]": b"",
        "[128]": OVER,
        '"AQI"': NO,
        "[null]": NO,
    }
    | {"[0.5]": INEXACT, "[true]": NO, "5": NO},
    "byte[] SimpleByteArrayCodec": {'"AQI="': b"\x01\x02", '""': NO, "[1]": NO},
    "byte[] ByteArrayCodec 2": {'"AQI="': b"\x01\x02", '"AQID"': NO, '"AQ=="': NO, "null": None},
    "boolean[]": {"[true,false]": [True, False], "[]": [], "[null]": NO, "[1]": JSON_TYPE, "true": NO, '"[true]"': NO},
    "char[]": {'["a","é",null]': [97, 233, None], '["ab"]': "not-one-character", '["\uffff"]': NULLED, "[5]": JSON_TYPE}
    | {'["\\ud800"]': "half-a-surrogate-pair", '[""]': "not-one-character"},
    "short[]": {"[1,-32767,null]": [1, -32767, None], "[32768]": OVER, "[-32768]": NULLED, "[1.0,1e2]": [1, 100]}
    | {"[0.5]": FRACTION, '["1"]': JSON_TYPE, "[[1]]": JSON_TYPE, "1": NO, "{}": NO, "[1,]": "not-json"},
    "int[]": {"[2147483647]": [2**31 - 1], "[2147483648]": OVER, "[-2147483648]": NULLED, "[ 1 , 2 ]": [1, 2]},
    "long[]": {f"[{LAST_LONG}]": [LAST_LONG], f"[{LAST_LONG + 1}]": OVER, f"[{-LAST_LONG - 1}]": NULLED, "[-0]": [0]}
    | {"[9007199254740993]": [2**53 + 1], "[true]": JSON_TYPE},
    "float[]": {"[0.1,-0.0,null]": [float(np.float32(0.1)), -0.0, None], "[1e39]": OVER, f"[{MIN_FLOAT!r}]": NULLED},
    "double[]": {
        "[0.1,1,null,-0]": [0.1, 1.0, None, -0.0],
        "[1e400]": OVER,
        f"[{MIN_DOUBLE!r}]": NULLED,
        "[NaN]": "not-json",
    }
    | {'["NaN"]': JSON_TYPE, f"[{'9' * 400}]": OVER},
    "String[]": {'["a",null,"\\u0000"]': ["a", None, "\x00"], "[1]": NO, '["\\ud800"]': NO, '"a"': NO, "[]": []},
    "StringSet": {'["b","a","b"]': ["b", "a", "b"], "[]": [], "[null]": NO, '["\\ud800"]': NO}
    | {str([str(n) for n in range(64)]).replace("'", '"'): [str(n) for n in range(64)]}
    | {str([str(n) for n in range(65)]).replace("'", '"'): OVER},
    "java.util.Map": {'{"a":1.5,"b":null}': [("a", 1.5), ("b", None)], "{}": [], '{"a":"1"}': JSON_TYPE, "[]": NO}
    | {f'{{"a":{MIN_DOUBLE!r}}}': NULLED, '{"\\ud800":1}': NO, '{"a":1,"a":2}': [("a", 2.0)]},
    "java.util.Map StringIntMapCodec": {'{"a":2147483648}': OVER, '{"a":0.5}': FRACTION, '{"a":-2147483648}': NULLED},
    "java.util.Map StringBooleanMapCodec": {'{"a":true,"b":null}': [("a", True), ("b", None)], '{"a":1}': JSON_TYPE},
    "java.util.Map StringStringMapCodec": {'{"a":"x"}': [("a", "x")], '{"a":null}': NO, '{"a":1}': NO},
    "RowSet": {'"DAMg"': b"\x0c\x03\x20", '"IQ=="': NO, '""': NO, "{}": NO},
    "com.example.Thing": {'"AQI="': b"\x01\x02", '""': NO, "{}": NO},
}

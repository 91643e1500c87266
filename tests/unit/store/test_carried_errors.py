"""Errors through a border that lets only text pass."""

from __future__ import annotations

import pytest

from sparkhaven.store.errors import CarriedError, FeedError, PositionGapError, carried_error, carrying


def test_an_error_comes_out_of_a_foreign_text_with_class_and_parts() -> None:
    sent = PositionGapError(
        "a file «changed»", where="/a b/ü\n", expected=3, found=None, hint="put it back", column="X"
    )
    with pytest.raises(CarriedError) as caught, carrying():
        raise sent
    text = f"[SPARK_ERROR] Traceback\n  {caught.value}\n\tat org.apache.spark.Foo(Foo.scala:1)"
    found = carried_error(text)
    assert type(found) is PositionGapError
    assert (str(found), found.extra) == (str(sent), {"column": "X"})


@pytest.mark.parametrize(
    "text", ["nothing", "sparkhaven-error:", 'sparkhaven-error:["os", "x", {}]', "sparkhaven-error:3"]
)
def test_other_texts_hold_no_error(text: str) -> None:
    assert carried_error(text) is None


def test_foreign_errors_pass_as_they_are() -> None:
    with pytest.raises(KeyError), carrying():
        raise KeyError("x")
    assert not issubclass(CarriedError, FeedError)

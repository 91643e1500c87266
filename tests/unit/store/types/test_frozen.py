"""``@frozen`` against what ``dataclass`` makes of the same class."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError, asdict, dataclass, field, fields, replace
from inspect import signature
from typing import Any, ClassVar

import pytest

from sparkhaven.store.types.frozen import frozen


@frozen
class Base:
    first: int


@frozen
class Ours(Base):
    """Fields of every sort."""

    second: str = "x"
    third: list[int] = field(default_factory=list)
    unseen: int = field(default=0, compare=False, repr=False)
    made: str = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "made", self.second * self.first)


@dataclass(frozen=True, slots=True)
class Theirs:
    first: int
    second: str = "x"
    third: list[int] = field(default_factory=list)
    unseen: int = field(default=0, compare=False, repr=False)
    made: str = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "made", self.second * self.first)


@frozen
class Key:
    first: int
    second: str = "x"
    unseen: int = field(default=0, compare=False)


@frozen
class Nothing:
    pass


def test_values_are_shown_and_taken_apart_as_those_of_a_dataclass() -> None:
    for arguments in [(2,), (2, "y"), (2, "y", [3]), (2, "y", [3], 4)]:
        ours, theirs = Ours(*arguments), Theirs(*arguments)
        assert repr(ours) == repr(theirs).replace("Theirs", "Ours")
        assert asdict(ours) == asdict(theirs)
        assert [each.name for each in fields(ours)] == [each.name for each in fields(theirs)]
    assert repr(replace(Ours(2), second="z")) == "Ours(first=2, second='z', third=[], made='zz')"
    assert (repr(Nothing()), Nothing() == Nothing()) == ("Nothing()", True)


def test_values_are_equal_and_hashed_by_the_fields_that_are_compared() -> None:
    assert Key(1, "a", 5) == Key(1, "a", 6)
    assert hash(Key(1, "a", 5)) == hash(Key(1, "a", 6))
    assert len({Key(1, "a"), Key(1, "b"), Key(2, "a"), Key(1, "a")}) == 3
    assert Key(1, "a") != Key(2, "a")
    assert Base(1) != Ours(1)
    assert Base(1).__eq__(1) is NotImplemented
    with pytest.raises(TypeError, match="unhashable"):
        hash(Ours(1))


def test_each_value_has_a_default_of_its_own() -> None:
    one, other = Ours(1), Ours(1)
    one.third.append(5)
    assert other.third == []


def test_nothing_can_be_changed_removed_or_added() -> None:
    value = Ours(1)
    for name in ("first", "second", "made", "unknown"):
        with pytest.raises(FrozenInstanceError, match=name):
            setattr(value, name, 1)
        with pytest.raises(FrozenInstanceError, match=name):
            delattr(value, name)
    assert not hasattr(value, "__dict__")
    assert value == Ours(1)


def test_wrong_arguments_are_named() -> None:
    made: Any = Ours
    with pytest.raises(TypeError, match=r"Ours.__init__\(\) missing 1 required positional argument: 'first'"):
        made()
    with pytest.raises(TypeError, match="made"):
        made(1, made="a")


def test_parameters_have_the_names_and_defaults_of_the_fields() -> None:
    assert list(signature(Ours).parameters) == ["first", "second", "third", "unseen"]
    assert (Ours(second="b", first=3).made, Key(first=1, unseen=2).unseen) == ("bbb", 2)
    with pytest.raises(TypeError, match="Wrong: a field without a default comes after one with a default"):

        @frozen
        class Wrong:
            first: int = 0
            second: str


def test_copies_and_pickles_have_all_fields() -> None:
    value = Ours(1, "y", [2], 3)
    for other in (pickle.loads(pickle.dumps(value)), copy.copy(value), copy.deepcopy(value)):
        assert asdict(other) == asdict(value)
        assert other == value


class Shown:
    def show(self) -> str:
        return "base"


@frozen
class Overriding(Shown):
    number: int

    def show(self) -> str:
        return f"{super().show()} {self.number}"


def test_methods_reach_those_that_they_override() -> None:
    assert Overriding(1).show() == "base 1"


@frozen
class Constant:
    number: int
    kind: ClassVar[str] = "whole"


def test_what_belongs_to_the_class_is_no_field() -> None:
    assert [member.name for member in fields(Constant(1))] == ["number"]
    assert (Constant.kind, Constant(1).kind, repr(Constant(1))) == ("whole", "whole", "Constant(number=1)")


def test_values_are_matched_by_position() -> None:
    match Key(1, "a"):
        case Key(first, second):
            assert (first, second) == (1, "a")
        case _:
            pytest.fail("no match")


def test_a_default_that_values_would_share_is_refused() -> None:
    with pytest.raises(ValueError, match="default of first"):

        @frozen
        class Wrong:
            first: list[int] = []

"""Values are what frozen dataclasses are, without their price."""

from __future__ import annotations

import pytest

from ottla.model.values import Value


class Point(Value):
    """Somewhere."""

    x: int
    y: int = 0
    name: str | None = None

    @property
    def is_origin(self) -> bool:
        return self.x == self.y == 0


class Other(Value):
    x: int
    y: int = 0
    name: str | None = None


class Nothing(Value):
    """Has no field."""


def test_fields_are_named_and_have_defaults() -> None:
    point = Point(x=1)
    assert (point.x, point.y, point.name) == (1, 0, None)
    assert Point(y=0, x=0).is_origin
    assert repr(Point(x=1, name="a")) == "Point(x=1, y=0, name='a')"
    assert not hasattr(point, "__dict__")


def test_a_copy_may_have_other_values() -> None:
    point = Point(x=1, name="a")
    assert point.replaced(y=2) == Point(x=1, y=2, name="a")
    assert point == Point(x=1, name="a")
    with pytest.raises(TypeError):
        point.replaced(z=1)


@pytest.mark.parametrize("fields", [{}, {"y": 1}, {"x": 1, "z": 2}])
def test_fields_that_are_missing_or_unknown_are_refused(fields: dict[str, int]) -> None:
    with pytest.raises(TypeError, match=r"Point: missing: (x|nothing); unknown: (z|nothing)"):
        Point(**fields)  # type: ignore[arg-type]


def test_values_do_not_change() -> None:
    point = Point(x=1)
    with pytest.raises(AttributeError, match="is immutable"):
        point.x = 2  # type: ignore[misc]
    with pytest.raises(AttributeError, match="is immutable"):
        del point.x
    assert point.x == 1


def test_equal_is_who_holds_the_same_and_is_of_the_same_kind() -> None:
    assert Point(x=1) == Point(x=1, y=0)
    assert Point(x=1) != Point(x=1, y=2)
    assert Point(x=1) != Other(x=1)
    assert Nothing() == Nothing()
    assert len({Point(x=1), Point(x=1), Other(x=1), Nothing()}) == 3


def test_they_are_matched_by_field() -> None:
    match Point(x=1, y=2):
        case Point(x=1, y=y):
            assert y == 2
        case _:
            pytest.fail("it does not match")


def test_a_value_is_not_derived_from_another() -> None:
    with pytest.raises(AssertionError, match="derive directly"):

        class Further(Point):
            z: int

"""Which failures reach the user without a traceback."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from ottla.client.errors import ClusterUnreachable
from ottla.model.errors import ErrorCode, KafkaError
from ottla.spark.failures import in_one_sentence
from ottla.spark.options import OptionError

EXPLAINED = [
    OptionError("no topic"),
    ClusterUnreachable("no cluster"),
    KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, ""),
]


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    # Set first, so that it is removed at the end, whatever the test leaves.
    monkeypatch.setenv("SPARK_HIDE_TRACEBACK", "")
    monkeypatch.delenv("OTTLA_TRACEBACK", raising=False)


class Reader:
    """A reader that fails at once, or while it is read."""

    def __init__(self, error: Exception | None = None) -> None:
        self._error = error

    @in_one_sentence
    def plan(self) -> int:
        if self._error is not None:
            raise self._error
        return 7

    @in_one_sentence
    def read(self) -> Iterator[int]:
        yield 1
        if self._error is not None:
            raise self._error


def is_hidden() -> bool:
    return bool(os.environ.get("SPARK_HIDE_TRACEBACK"))


@pytest.mark.parametrize("error", EXPLAINED)
def test_a_failure_that_a_sentence_explains_has_no_traceback(error: Exception) -> None:
    with pytest.raises(type(error)):
        Reader(error).plan()
    assert is_hidden()
    # The next call of the same process shows tracebacks again.
    assert Reader().plan() == 7
    assert not is_hidden()
    with pytest.raises(type(error)):
        list(Reader(error).read())
    assert is_hidden()


@pytest.mark.parametrize("error", [ValueError("odd"), ZeroDivisionError()])
def test_a_defect_has_one(error: Exception) -> None:
    with pytest.raises(type(error)):
        Reader(error).plan()
    with pytest.raises(type(error)):
        list(Reader(error).read())
    assert not is_hidden()


def test_all_failures_can_be_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTTLA_TRACEBACK", "1")
    with pytest.raises(OptionError):
        Reader(OptionError("no topic")).plan()
    assert not is_hidden()

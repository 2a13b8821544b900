"""`make compat` fails exactly when a test that must pass did not."""

from __future__ import annotations

import pytest

from tests.kafka import harness
from tests.kafka.__main__ import report

BASELINE = {"SomeTest": {"one [1]", "two [1]"}}


def verdict(states: dict[str, str], *, expected: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    status = report(["a.SomeTest"], {"SomeTest": states}, baseline=BASELINE, expected=expected)
    return status, capsys.readouterr().out


def test_all_of_the_baseline_passes(capsys: pytest.CaptureFixture[str]) -> None:
    states = {"one [1]": "SUCCESSFUL", "two [1]": "SUCCESSFUL", "beyond the baseline [1]": "FAILED"}
    assert verdict(states, expected=["a.SomeTest"], capsys=capsys)[0] == 0


def test_a_missing_test_fails_an_expected_class(capsys: pytest.CaptureFixture[str]) -> None:
    status, text = verdict({"one [1]": "SUCCESSFUL", "two [1]": "FAILED"}, expected=["a.SomeTest"], capsys=capsys)
    assert status == 1
    assert "missing: two [1]" in text


def test_a_class_that_is_not_expected_is_only_reported(capsys: pytest.CaptureFixture[str]) -> None:
    status, text = verdict({}, expected=[], capsys=capsys)
    assert status == 0
    assert "(not yet expected)" in text


def test_a_class_that_ran_nothing_proves_nothing() -> None:
    assert report(["a.Other"], {}, baseline=BASELINE, expected=["a.Other"]) == 1


def test_the_feed_is_understood() -> None:
    match = harness.FEED_LINE.match("JUnit Jupiter > SomeTest > one(ClusterInstance) > one [1] :: SUCCESSFUL")
    assert match is not None
    assert (match["test_class"], match["test"], match["state"]) == ("SomeTest", "one [1]", "SUCCESSFUL")


def test_what_is_expected_or_not_yet_is_in_the_baseline() -> None:
    baseline = harness.read_baseline()
    classes = [name.rsplit(".", 1)[1] for name in harness.read_list(harness.HERE / "expected.txt")]
    assert [name for name in classes if name not in baseline] == []
    for line in harness.read_list(harness.HERE / "not-yet.txt"):
        name, test = line.partition(": ")[0].split(" ", 1)
        assert test in baseline[name]

"""The part of Apache Kafka's own integration tests that `make test` has time for; `make compat` runs all of them."""

from __future__ import annotations

import pytest

from tests.kafka.harness import HERE, Results, demanded, passed, read_baseline, read_list, run
from tests.support import jars
from tests.support.java import unavailable_reason

SELECTED = read_list(HERE / "selected.txt")

# All classes run in the set-up of the first test, in one JVM.
pytestmark = [pytest.mark.java, pytest.mark.slow, pytest.mark.timeout(1_800)]


@pytest.fixture(scope="module")
def results() -> Results:
    if reason := unavailable_reason(jars.COMPAT):
        pytest.skip(reason)
    return run(SELECTED, launcher="ottla")


@pytest.mark.parametrize("full_name", SELECTED)
def test_a_class_passes_as_on_apache_kafka(results: Results, full_name: str) -> None:
    must_pass = demanded(full_name, read_baseline())
    assert must_pass
    assert must_pass - passed(results, full_name) == set()


def test_what_is_selected_is_expected() -> None:
    assert set(SELECTED) <= set(read_list(HERE / "expected.txt"))

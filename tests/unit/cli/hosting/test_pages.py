"""The pages of several nodes as one, and the pauses before restarts."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from ottla.cli.hosting.pages import joined_metrics, sample_sum
from ottla.cli.hosting.restarts import CALM_SECONDS, SECONDS_MAX, Restarts

ONE = """\
# HELP requests_total Requests.
# TYPE requests_total counter
requests_total{api="Fetch"} 3
requests_total{api="Produce"} 4
# HELP partitions Partitions.
# TYPE partitions gauge
partitions 7
"""
TWO = ONE.replace(" 7", " 8").replace(" 3", " 30")


def test_metrics_of_several_nodes_are_one_page_with_a_label() -> None:
    page = joined_metrics({1: ONE, 2: TWO})
    families = {family.name: family for family in text_string_to_metric_families(page)}
    assert {(sample.labels["node"], sample.value) for sample in families["partitions"].samples} == {("1", 7), ("2", 8)}
    fetched = [sample for sample in families["requests"].samples if sample.labels["api"] == "Fetch"]
    assert [(sample.labels["node"], sample.value) for sample in fetched] == [("1", 3), ("2", 30)]
    assert page.count("# TYPE partitions gauge") == 1


def test_the_sum_of_a_metric() -> None:
    assert sample_sum(ONE, "requests_total") == 7
    assert sample_sum(ONE, "partitions") == 7
    assert sample_sum(ONE, "partition") is None


def test_pauses_double_until_a_node_was_ready_for_long() -> None:
    restarts = Restarts()
    assert [restarts.pause(1.0) for _ in range(8)] == [1, 2, 4, 8, 16, 32, SECONDS_MAX, SECONDS_MAX]
    assert restarts.pause(CALM_SECONDS) == 1
    assert restarts.count == 9

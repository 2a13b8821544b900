"""The table of metrics, and the files generated from it."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from ottla.broker.metrics.metric import Kind
from ottla.broker.metrics.table import METRICS

ROOT = Path(__file__).resolve().parents[3]

# Dashboards for groups use the names of kafka-exporter, for which there is nothing in JMX.
FROM_KAFKA_EXPORTER = {
    "kafka_consumergroup_current_offset",
    "kafka_consumergroup_lag",
    "kafka_topic_partition_current_offset",
}


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_metrics_docs", ROOT / "tools/generate_metrics_docs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_metric_is_told_once() -> None:
    names = [metric.name for metric in METRICS]
    assert len(names) == len(set(names)) > 80


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_a_metric_is_well_formed(metric: object) -> None:
    name, kind, labels, text, jmx, _ = metric  # type: ignore[misc]
    assert re.fullmatch(r"[a-z][a-z0-9_]*", name)
    assert (kind is Kind.COUNTER) == name.endswith("_total")
    assert all(re.fullmatch(r"[a-z_]+", label) and label not in ("le", "quantile") for label in labels)
    assert text.endswith((".", "kafka-exporter."))
    assert "\n" not in text
    if name.startswith("kafka_") and name not in FROM_KAFKA_EXPORTER:
        assert re.match(r"kafka\.[a-z.]+:type=", jmx), "what it stands for"


@pytest.mark.parametrize("metric", [metric for metric in METRICS if ",name=" in metric.jmx and ";" not in metric.jmx])
def test_a_name_is_what_the_jmx_exporter_makes_of_it(metric: object) -> None:
    name, kind, _, _, jmx, _ = metric  # type: ignore[misc]
    if not name.startswith("kafka_"):
        return
    match = re.match(r"kafka\.([a-z.]+):type=([A-Za-z-]+),name=([A-Za-z-]+)", jmx)
    assert match is not None
    domain, kind_of_bean, bean = match.groups()
    bean = bean.removesuffix("PerSec")
    if bean.endswith("Percent"):
        bean = bean.removesuffix("Percent") + "_percent"
    jmx_name = f"kafka_{domain}_{kind_of_bean}_{bean}{'_total' if kind is Kind.COUNTER else ''}"
    assert name == jmx_name.replace(".", "_").replace("-", "_").lower()


def test_the_files_made_from_the_table_are_up_to_date() -> None:
    checked = subprocess.run(
        [sys.executable, str(ROOT / "tools/generate_metrics_docs.py"), "--check"], capture_output=True, text=True
    )
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_the_dashboard_asks_only_for_what_is_told(generator: ModuleType) -> None:
    board = json.loads(generator.dashboard())
    panels = board["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    places = [panel["gridPos"] for panel in panels]
    cells = [
        (x, y)
        for place in places
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(cells) == len(set(cells)), "panels lie over one another"
    assert max(x for x, _ in cells) < 24
    for panel in panels:
        for target in panel.get("targets", ()):
            assert generator.unknown_names(target["expr"]) == [], panel["title"]
            check_brackets(target["expr"])
            legend = set(re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]))
            assert legend <= {"instance", *re.findall(r"\w+", target["expr"]), *labels_of(target["expr"])}


def test_alerts_watch_only_what_is_told(generator: ModuleType) -> None:
    alerts = generator.ALERTS
    assert len({alert.name for alert in alerts}) == len(alerts) > 10
    for alert in alerts:
        assert generator.unknown_names(alert.expression) == [], alert.name
        check_brackets(alert.expression)
        assert re.fullmatch(r"\d+m", alert.lasts)
        assert alert.severity in ("critical", "warning")
        assert alert.summary.endswith(".")
        assert alert.action.endswith(".")


def test_capacity_is_looked_at_by_the_day(generator: ModuleType) -> None:
    """Alerts look back for hours at most. Capacity planning needs days."""
    panels = generator.ROWS["Capacity, by the day"]
    for panel in panels:
        assert all(re.search(r"\[\dd|\[1d:", expression) for expression, _ in panel.targets), panel.title
    queries = " ".join(expression for panel in panels for expression, _ in panel.targets)
    assert all(name in queries for name in ("usable_bytes", "log_size", "bytesin", "bytesout", "cpu_seconds"))
    for alert in generator.ALERTS:
        assert not re.search(r"\[\d+d", alert.expression), alert.name


def test_an_undocumented_name_is_found(generator: ModuleType) -> None:
    assert generator.unknown_names("sum(kafka_server_nothing) + ottla_request_seconds_bucket") == [
        "kafka_server_nothing"
    ]
    # A histogram has no series of its own name.
    assert generator.unknown_names("ottla_request_seconds") == ["ottla_request_seconds"]


def labels_of(expression: str) -> set[str]:
    return {label for metric in METRICS if metric.name in expression for label in metric.labels}


def check_brackets(expression: str) -> None:
    open_brackets = []
    for character in expression:
        if character in "([{":
            open_brackets.append(character)
        elif character in ")]}":
            assert open_brackets, expression
            assert "([{".index(open_brackets.pop()) == ")]}".index(character), expression
    assert not open_brackets, expression

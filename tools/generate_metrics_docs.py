"""Writes the files that are generated from the table of metrics.

    python tools/generate_metrics_docs.py [--check]

makes `docs/metrics.md`, Grafana's dashboard and Prometheus' alert rules under `docs/monitoring`. With --check nothing
is written; the exit status says whether the files are up to date.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))

from metrics_alerts import ALERTS
from metrics_views import ROWS, Panel

from ottla.broker.metrics.metric import Kind, Metric
from ottla.broker.metrics.table import METRICS, SUBJECTS
from ottla.client.measures import CONSUMER_METRICS, PRODUCER_METRICS, SHARE_METRICS
from ottla.monitor.series import SERIES
from ottla.registry.node.metrics import METRICS as REGISTRY_METRICS

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/metrics.md"
DASHBOARD = ROOT / "docs/monitoring/grafana-dashboard.json"
RULES = ROOT / "docs/monitoring/prometheus-alerts.yml"

INTRODUCTION = """# Metrics

This page is generated from the tables of metrics in the source by `tools/generate_metrics_docs.py`.

`ottla up` serves metrics on a free port, which it prints; `ottla node` serves them on `ottla.metrics.listener`, which
`ottla up` takes too:

```console
$ ottla up --set ottla.metrics.listener=127.0.0.1:9404
```

In another terminal:

```console
$ curl -sS localhost:9404/health/ready
ready
$ curl -sS localhost:9404/metrics | grep kafka_server_brokertopicmetrics_messagesin_total
# HELP kafka_server_brokertopicmetrics_messagesin_total Records that producers have written; ...
# TYPE kafka_server_brokertopicmetrics_messagesin_total counter
kafka_server_brokertopicmetrics_messagesin_total 0
```

| path | answer |
|---|---|
| `/metrics` | all metrics below, in the text format of Prometheus |
| `/health/live` | 200 as long as the node's loop turns |
| `/health/ready` | 200 while clients are served; 503 with the reason while the node starts or stops |

Names are those that the JMX exporter's rules give to Apache Kafka's metrics, so that dashboards made for Kafka work.
Metrics without a counterpart in Kafka begin with `ottla_`; group lag has the names of kafka-exporter. A counter
replaces each of Kafka's rates (`...PerSec`) and counts from the node's start: use `rate()`. Quantiles cover the last
minute or two and are exact to a factor of two, because values are counted by their highest bit.

A request has the same phases as in Kafka; with a single thread they mean:

| phase | what is measured |
|---|---|
| request queue | the delay of the loop, which is the same for every API |
| local | the work of the handler |
| remote | waiting for followers, for data or for a disk |
| throttle | the time that the connection is muted after the answer, because of a quota |
| response queue | waiting for the answers to earlier requests of the same connection; mostly 0 |
| response send | waiting for the client's socket; mostly 0 |

A scrape is rendered in portions with the node's work in between; `ottla_scrape_step_seconds` is their duration.

[monitoring/grafana-dashboard.json](monitoring/grafana-dashboard.json) is a dashboard, and
[monitoring/prometheus-alerts.yml](monitoring/prometheus-alerts.yml) are rules for alerts; both are generated too.

<!-- not run: needs Prometheus -->
```yaml
scrape_configs:
  - job_name: ottla
    static_configs:
      - targets: ["broker-1:9404", "broker-2:9404", "broker-3:9404"]
```
"""

COLUMNS = 4
WIDTH, HEIGHT = 24 // COLUMNS, 7


def page() -> str:
    sections = [INTRODUCTION]
    for subject, metrics in SUBJECTS.items():
        lines = [f"## {subject}", "", "| metric | kind | labels | meaning | stands for |", "|---|---|---|---|---|"]
        lines += [
            f"| `{metric.name}` | {metric.kind.value} | {', '.join(metric.labels)} | {metric.help} "
            f"| {f'`{metric.jmx}`' if metric.jmx else ''} |"
            for metric in metrics
        ]
        sections.append("\n".join(lines) + "\n")
    sections.append(registry())
    sections.append(clients())
    lines = ["## Alerts", "", "| alert | severity | when | what to do |", "|---|---|---|---|"]
    for alert in ALERTS:
        expression = alert.expression.replace("|", "\\|")
        lines.append(f"| {alert.name} | {alert.severity} | `{expression}` for {alert.lasts} | {alert.action} |")
    sections.append("\n".join(lines) + "\n")
    return "\n".join(sections)


def registry() -> str:
    lines = [
        "## Schema Registry",
        "",
        "Every instance of `ottla registry` has a page at `/metrics` of its own address (`docs/registry.md`).",
        "",
        "| metric | kind | labels | meaning |",
        "|---|---|---|---|",
    ]
    lines += [
        f"| `{metric.name}` | {metric.kind} | {', '.join(metric.labels)} | {metric.help} |"
        for metric in REGISTRY_METRICS
    ]
    return "\n".join(lines) + "\n"


def clients() -> str:
    """Metrics of producers and consumers, which are not nodes: the program around them reads these metrics."""
    lines = [
        "## Clients",
        "",
        "`metrics()` of producers, consumers and share consumers of `ottla.client` gives these under the names that",
        "Kafka has, for the client whose client id it is: over the last half minute or minute where somebody looked",
        "before, else since the client began. `ottla perf produce` and `ottla perf consume` show them with",
        "`--print-metrics`.",
        "Averages are NaN where there was nothing.",
        "",
        "| metric | of | meaning | stands for |",
        "|---|---|---|---|",
    ]
    for kind, metrics in (
        ("producer", PRODUCER_METRICS),
        ("consumer", CONSUMER_METRICS),
        ("share consumer", SHARE_METRICS),
    ):
        for metric in metrics:
            bean = f"kafka.{kind.rpartition(' ')[2]}:type={metric.group},client-id=*; {metric.name}"
            own = "no such name" in metric.help
            lines.append(f"| `{metric.name}` | {kind} | {metric.help} | {'' if own else f'`{bean}`'} |")
    return "\n".join(lines) + "\n"


def dashboard() -> str:
    panels: list[dict[str, Any]] = []
    top = 0
    for title, row in ROWS.items():
        panels.append(
            {
                "type": "row",
                "title": title,
                "collapsed": False,
                "id": len(panels) + 1,
                "gridPos": {"x": 0, "y": top, "w": 24, "h": 1},
                "panels": [],
            }
        )
        top += 1
        for number, panel in enumerate(row):
            place = {"x": number % COLUMNS * WIDTH, "y": top + number // COLUMNS * HEIGHT, "w": WIDTH, "h": HEIGHT}
            panels.append(grafana_panel(panel, len(panels) + 1, place))
        top += -(-len(row) // COLUMNS) * HEIGHT
    board = {
        "title": "Ottla",
        "uid": "ottla",
        "tags": ["kafka", "ottla"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {
            "list": [{"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Prometheus"}]
        },
        "panels": panels,
    }
    return json.dumps(board, indent=1) + "\n"


def grafana_panel(panel: Panel, number: int, place: dict[str, int]) -> dict[str, Any]:
    return {
        "id": number,
        "type": "timeseries",
        "title": panel.title,
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "options": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
        "targets": [
            {"refId": chr(ord("A") + index), "expr": expression, "legendFormat": legend}
            for index, (expression, legend) in enumerate(panel.targets)
        ],
    }


def rules() -> str:
    """Strings are written in JSON syntax, which is valid YAML, too."""
    lines = ["# Generated by tools/generate_metrics_docs.py; do not edit.", "groups:", "  - name: ottla", "    rules:"]
    for alert in ALERTS:
        lines += [
            f"      - alert: {alert.name}",
            f"        expr: {json.dumps(alert.expression)}",
            f"        for: {alert.lasts}",
            "        labels:",
            f"          severity: {alert.severity}",
            "        annotations:",
            f"          summary: {json.dumps(alert.summary)}",
            f"          action: {json.dumps(alert.action)}",
        ]
    return "\n".join(lines) + "\n"


def unknown_names(expression: str) -> list[str]:
    """Metrics in an expression that neither a node nor a registry nor `ottla monitor` exports."""
    exported = {name for metric in METRICS for name in series_of(metric)} | SERIES | registry_series()
    named = re.findall(r"\b(?:kafka|ottla|process|python)_[a-z0-9_]+", expression)
    return [name for name in named if name not in exported]


def registry_series() -> set[str]:
    single = {metric.name for metric in REGISTRY_METRICS if metric.kind != "histogram"}
    histograms = [metric.name for metric in REGISTRY_METRICS if metric.kind == "histogram"]
    return single | {f"{name}_{end}" for name in histograms for end in ("bucket", "sum", "count")}


def series_of(metric: Metric) -> list[str]:
    if metric.kind is Kind.HISTOGRAM:
        return [f"{metric.name}_{end}" for end in ("bucket", "sum", "count")]
    if metric.kind is Kind.SUMMARY:
        return [metric.name, f"{metric.name}_sum", f"{metric.name}_count"]
    return [metric.name]


def outputs() -> dict[Path, str]:
    return {PAGE: page(), DASHBOARD: dashboard(), RULES: rules()}


def stale_files() -> list[Path]:
    return [path for path, text in outputs().items() if not path.exists() or path.read_text(encoding="utf-8") != text]


def main(arguments: list[str]) -> int:
    stale = stale_files()
    if "--check" in arguments:
        for path in stale:
            print(f"{path.relative_to(ROOT)} is out of date: run python tools/generate_metrics_docs.py")
        return 1 if stale else 0
    for path in stale:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(outputs()[path], encoding="utf-8")
        print(f"wrote {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

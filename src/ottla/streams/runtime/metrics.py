"""The metrics of an application, under Kafka Streams' names, from the reports of its workers.

Totals grow from the start of a worker. Rates and averages cover the last one to two windows. `exposition` writes the
text format of Prometheus, with names as its JMX exporter makes them.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ottla.client.measures import Window

__all__ = ["METRICS", "MetricHistory", "StreamsMetric", "exposition"]

_WINDOW_SECONDS = 30.0
_CLIENT, _THREAD, _TASK, _NODE = (
    "stream-metrics",
    "stream-thread-metrics",
    "stream-task-metrics",
    "stream-processor-node-metrics",
)


class StreamsMetric(NamedTuple):
    name: str
    group: str
    tags: Mapping[str, str]
    value: float | str


# (group, name) -> help. `docs/streams.md` lists them.
METRICS: Mapping[tuple[str, str], str] = {
    (_CLIENT, "state"): "The state of the application.",
    (_CLIENT, "client-state"): "The state as a number, in the order of Kafka Streams.",
    (_CLIENT, "alive-stream-threads"): "Workers that run or rebalance.",
    (_CLIENT, "failed-stream-threads"): "Workers that have failed since the start.",
    (_THREAD, "poll-rate"): "Polls, in a second.",
    (_THREAD, "poll-total"): "Polls.",
    (_THREAD, "poll-latency-avg"): "Average time of a poll, in milliseconds.",
    (_THREAD, "poll-records-avg"): "Average number of records of a poll.",
    (_THREAD, "poll-ratio"): "Share of the time in polls.",
    (_THREAD, "process-rate"): "Processed records, in a second.",
    (_THREAD, "process-total"): "Processed records.",
    (_THREAD, "process-latency-avg"): "Average time to process the records of a round, in milliseconds.",
    (_THREAD, "process-records-avg"): "Average number of records of a round.",
    (_THREAD, "process-ratio"): "Share of the time in processing.",
    (_THREAD, "commit-rate"): "Commits, in a second.",
    (_THREAD, "commit-total"): "Commits.",
    (_THREAD, "commit-latency-avg"): "Average time of a commit, in milliseconds.",
    (_THREAD, "commit-latency-max"): "Longest time of a commit since the start, in milliseconds.",
    (_THREAD, "commit-ratio"): "Share of the time in commits.",
    (_THREAD, "task-created-total"): "Tasks that were opened.",
    (_THREAD, "task-created-rate"): "Tasks that were opened, in a second.",
    (_THREAD, "task-closed-total"): "Tasks that were closed.",
    (_THREAD, "task-closed-rate"): "Tasks that were closed, in a second.",
    (_THREAD, "restore-total"): "Records from which stores were restored.",
    (_THREAD, "restore-rate"): "Records from which stores are restored, in a second.",
    (_THREAD, "task-restart-total"): "How often tasks began again from their last commit; Kafka has no such name.",
    (_TASK, "dropped-records-total"): "Records that operators or exception handlers have skipped.",
    (_TASK, "dropped-records-rate"): "Records that are skipped, in a second.",
    (_TASK, "records-lag"): "Records behind the end of an input partition.",
    (_NODE, "dropped-records-total"): "Records that a node has skipped, with the reason; Kafka has no such name.",
}
_STATE_NUMBERS = (
    "CREATED",
    "REBALANCING",
    "RUNNING",
    "PENDING_SHUTDOWN",
    "NOT_RUNNING",
    "PENDING_ERROR",
    "ERROR",
)


class MetricHistory:
    """Keeps an earlier report of every worker, to compute rates."""

    def __init__(self) -> None:
        self._last: dict[int, tuple[float, dict[str, Any]]] = {}
        # At least a window older than the last report, except at the start, and the report that replaces it next.
        self._before: dict[int, tuple[float, dict[str, Any]]] = {}
        self._middle: dict[int, tuple[float, dict[str, Any]]] = {}

    def add(self, report: dict[str, Any]) -> None:
        if "measures" not in report:
            return
        number, now = int(report["worker"]), time.monotonic()
        middle = self._middle.get(number)
        if middle is None or report["measures"]["polls"] < middle[1]["measures"]["polls"]:
            # The first report, or a worker that was started again.
            self._before[number] = self._middle[number] = (now, report)
        elif now - middle[0] >= _WINDOW_SECONDS:
            self._before[number], self._middle[number] = middle, (now, report)
        self._last[number] = (now, report)

    def metrics(self, client_id: str, state: str, failed: int) -> list[StreamsMetric]:
        client = {"client-id": client_id}
        alive = sum(report["state"] in ("running", "rebalancing") for _, report in self._last.values())
        metrics = [
            StreamsMetric("state", _CLIENT, client, state),
            StreamsMetric("client-state", _CLIENT, client, _STATE_NUMBERS.index(state)),
            StreamsMetric("alive-stream-threads", _CLIENT, client, alive),
            StreamsMetric("failed-stream-threads", _CLIENT, client, failed),
        ]
        for number in sorted(self._last):
            thread = {"thread-id": f"{client_id}-StreamThread-{number + 1}"}
            metrics += self._of_worker(number, thread)
        return metrics

    def _of_worker(self, number: int, thread: dict[str, str]) -> list[StreamsMetric]:
        (now, last), (then, before) = self._last[number], self._before[number]
        seconds = now - then
        totals: dict[str, float] = last["measures"]
        growth = {name: value - before["measures"][name] for name, value in totals.items()}
        figures = _thread_figures(totals, Window(seconds, growth, {}))
        metrics = [StreamsMetric(name, _THREAD, thread, value) for name, value in figures.items()]
        for task_id, task in last.get("by_task", {}).items():
            tags = {**thread, "task-id": task_id}
            dropped = sum(task["dropped"].values())
            earlier = before.get("by_task", {}).get(task_id, {"dropped": {}})
            rate = (dropped - sum(earlier["dropped"].values())) / seconds if seconds > 0 else 0.0
            metrics.append(StreamsMetric("dropped-records-total", _TASK, tags, dropped))
            metrics.append(StreamsMetric("dropped-records-rate", _TASK, tags, rate))
            for place, lag in task["lag"].items():
                metrics.append(StreamsMetric("records-lag", _TASK, {**tags, "partition": place}, lag))
            for place, count in task["dropped"].items():
                node, _, reason = place.partition(": ")
                labels = {**tags, "processor-node-id": node, "reason": reason or node}
                metrics.append(StreamsMetric("dropped-records-total", _NODE, labels, count))
        return metrics


def _thread_figures(totals: Mapping[str, float], window: Window) -> dict[str, float]:
    rate, average = window.rate, window.average
    return {
        "poll-rate": rate("polls"),
        "poll-total": totals["polls"],
        "poll-latency-avg": average("poll_seconds", "polls", unit=1000),
        "poll-records-avg": average("poll_records", "polls"),
        "poll-ratio": rate("poll_seconds"),
        "process-rate": rate("process_records"),
        "process-total": totals["process_records"],
        "process-latency-avg": average("process_seconds", "processes", unit=1000),
        "process-records-avg": average("process_records", "processes"),
        "process-ratio": rate("process_seconds"),
        "commit-rate": rate("commits"),
        "commit-total": totals["commits"],
        "commit-latency-avg": average("commit_seconds", "commits", unit=1000),
        "commit-latency-max": totals["commit_seconds_max"] * 1000,
        "commit-ratio": rate("commit_seconds"),
        "task-created-total": totals["tasks_created"],
        "task-created-rate": rate("tasks_created"),
        "task-closed-total": totals["tasks_closed"],
        "task-closed-rate": rate("tasks_closed"),
        "restore-total": totals["restored"],
        "restore-rate": rate("restored"),
        "task-restart-total": totals["restarts"],
    }


def exposition(metrics: Iterable[StreamsMetric]) -> str:
    """The text format of Prometheus. The state is a label of a metric that is 1."""
    lines: dict[str, list[str]] = {}
    for metric in metrics:
        name = f"kafka_streams_{metric.group}_{metric.name}".replace("-", "_")
        tags, value = dict(metric.tags), metric.value
        if isinstance(value, str):
            tags[metric.name], value = value, 1
        if name not in lines:
            kind = "counter" if metric.name.endswith("-total") else "gauge"
            text = METRICS[metric.group, metric.name]
            lines[name] = [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
        labels = ",".join(f'{key.replace("-", "_")}="{_escaped(text)}"' for key, text in tags.items())
        lines[name].append(f"{name}{{{labels}}} {'NaN' if value != value else value}")
    return "".join(f"{line}\n" for metric_lines in lines.values() for line in metric_lines)


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")

"""`GET /metrics`: metrics of this worker and its tasks for Prometheus.

Names follow Kafka Connect's metrics of the same meaning, where there are any.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.connect.control.states import State

if TYPE_CHECKING:
    from ottla.connect.control.herder import Herder

__all__ = ["metrics_page"]

# Name, kind, help text, and the path in a task's progress.
_TASK_METRICS: tuple[tuple[str, str, str, tuple[str, ...]], ...] = (
    ("records_total", "counter", "Records moved since the task started here.", ("records",)),
    ("bytes_total", "counter", "Bytes moved since the task started here.", ("bytes",)),
    ("batches_total", "counter", "Batches done since the task started here.", ("batches",)),
    ("failed_records_total", "counter", "Records that could not be processed and were skipped.", ("failed_records",)),
    ("retries_total", "counter", "Batches that were tried again.", ("retries",)),
    ("records_per_second", "gauge", "Records in a second, over the last minute.", ("records_per_second",)),
    ("last_batch_seconds", "gauge", "How long the last batch took.", ("last_batch", "duration_ms")),
    ("lag_records", "gauge", "How many records of its topics a sink has not read yet.", ("lag",)),
)


def metrics_page(herder: Herder) -> str:
    tasks = herder.reconciler.local_tasks()
    lines = _gauge("ottla_connect_worker_connectors", "Connectors here.", len(herder.reconciler.owned().connectors))
    lines += _gauge("ottla_connect_worker_tasks", "Tasks here.", len(tasks))
    lines += _gauge("ottla_connect_worker_is_leader", "Whether this worker leads.", int(herder.reconciler.is_leader))
    lines += _gauge("ottla_connect_worker_generation", "The group's generation.", herder.reconciler.generation)
    name = "ottla_connect_task_status"
    lines += [f"# HELP {name} What each task here does; 1 for the state it is in.", f"# TYPE {name} gauge"]
    for task, (state, _) in sorted(tasks.items()):
        for candidate in (State.RUNNING, State.PAUSED, State.FAILED):
            labels = _labels(task.connector, task.task) + f',state="{candidate.value.lower()}"'
            lines.append(f"{name}{{{labels}}} {int(candidate is state)}")
    for metric, kind, help_text, path in _TASK_METRICS:
        name = f"ottla_connect_task_{metric}"
        lines += [f"# HELP {name} {help_text}", f"# TYPE {name} {kind}"]
        for task, (_, progress) in sorted(tasks.items()):
            value: Any = progress
            for step in path:
                value = value.get(step) if isinstance(value, dict) else None
            if value is not None:
                value = value / 1000 if metric.endswith("_seconds") else value
                lines.append(f"{name}{{{_labels(task.connector, task.task)}}} {value}")
    return "\n".join(lines) + "\n"


def _gauge(name: str, help_text: str, value: int) -> list[str]:
    return [f"# HELP {name} {help_text}", f"# TYPE {name} gauge", f"{name} {value}"]


def _labels(connector: str, task: int) -> str:
    escaped = connector.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'connector="{escaped}",task="{task}"'

"""Service level objectives: from a file to rules for Prometheus, with alerts on how fast the error budget burns.

An alert fires if the budget burns fast in a long *and* in a short window: the long window proves that the errors
matter, and the short window that they still happen. The windows and factors are those of the SRE workbook for 30 days.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from ottla.monitor.report import BOUNDS

__all__ = ["BURNS", "Burn", "Objective", "read_objectives", "rules_yaml"]

KINDS = ("availability", "latency", "lag")


class Burn(NamedTuple):
    long: str
    short: str
    # How many times faster than the budget allows.
    factor: float
    severity: str


BURNS = (
    Burn("1h", "5m", 14.4, "page"),
    Burn("6h", "30m", 6.0, "page"),
    Burn("3d", "6h", 1.0, "ticket"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Objective:
    name: str
    kind: str
    # The share that has to be good, in percent.
    target: float
    # For latency: end to end, in milliseconds. For lag: the age of the first unread record, in seconds.
    threshold: float = 0.0
    group: str = ""

    @property
    def budget(self) -> float:
        return 1 - self.target / 100

    def bad_share(self, window: str) -> str:
        """The share of bad events, as an expression of Prometheus."""
        if self.kind == "availability":
            bad, good = "ottla_monitor_produce_errors_total", "ottla_monitor_records_produced_total"
            failed = f"sum(rate({bad}[{window}]))"
            return f"{failed} / ({failed} + sum(rate({good}[{window}])))"
        if self.kind == "latency":
            name = "ottla_monitor_latency_seconds"
            fast = f'sum(rate({name}_bucket{{le="{self.threshold / 1000}"}}[{window}]))'
            return f"1 - {fast} / sum(rate({name}_count[{window}]))"
        late = f'max(ottla_monitor_group_lag_seconds{{group="{self.group}"}}) > bool {self.threshold:g}'
        return f"avg_over_time(({late})[{window}:1m])"


def read_objectives(text: str) -> list[Objective]:
    """Reads a TOML file with a table `[[objective]]` per objective."""
    try:
        tables = tomllib.loads(text).get("objective", [])
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"The file is no TOML: {error}.") from None
    if not isinstance(tables, list) or not tables:
        raise ValueError("The file has no objective: write [[objective]], then name, kind and target.")
    objectives = [_read(table) for table in tables]
    names = [objective.name for objective in objectives]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"There are two objectives with the name {name!r}.")
    return objectives


def _read(table: dict[str, Any]) -> Objective:
    name = str(table.get("name", ""))
    if not name or not name.replace("_", "").replace("-", "").isalnum():
        raise ValueError(f"An objective needs a name of letters, digits, - and _; not {name!r}.")
    unknown = set(table) - {"name", "kind", "target", "threshold_ms", "threshold_seconds", "group"}
    if unknown:
        raise ValueError(f"{name}: there is no setting {sorted(unknown)[0]!r}.")
    kind = table.get("kind")
    if kind not in KINDS:
        raise ValueError(f"{name}: kind must be one of {', '.join(KINDS)}, not {kind!r}.")
    target = table.get("target")
    if not isinstance(target, int | float) or not 0 < target < 100:
        raise ValueError(f"{name}: target is the share of good events in percent, such as 99.9, not {target!r}.")
    threshold = float(table.get("threshold_ms" if kind == "latency" else "threshold_seconds", 0))
    if kind == "latency" and threshold / 1000 not in BOUNDS:
        bounds = ", ".join(f"{bound * 1000:g}" for bound in BOUNDS)
        raise ValueError(f"{name}: threshold_ms must be a bound of the histogram: {bounds}.")
    group = str(table.get("group", ""))
    if kind == "lag" and (not group or threshold <= 0 or '"' in group or "\\" in group):
        raise ValueError(f"{name}: an objective of lag needs group and threshold_seconds.")
    return Objective(name=name, kind=str(kind), target=float(target), threshold=threshold, group=group)


def rules_yaml(objectives: list[Objective]) -> str:
    """Recording rules for every window, and an alert for each pair of windows."""
    return "\n".join(["groups:", *(line for objective in objectives for line in _group(objective))]) + "\n"


def _group(objective: Objective) -> Iterator[str]:
    metric = "ottla:slo_bad:ratio_rate"
    yield f"  - name: slo-{objective.name}"
    yield "    rules:"
    for window in sorted({window for burn in BURNS for window in (burn.long, burn.short)}):
        yield f"      - record: {metric}{window}"
        yield f"        expr: {_quoted(objective.bad_share(window))}"
        yield "        labels:"
        yield f"          objective: {objective.name}"
    for burn in BURNS:
        limit = f"{burn.factor * objective.budget:.6g}"
        conditions = " and ".join(
            f'{metric}{window}{{objective="{objective.name}"}} > {limit}' for window in (burn.long, burn.short)
        )
        yield "      - alert: OttlaErrorBudgetBurns"
        yield f"        expr: {_quoted(conditions)}"
        yield "        labels:"
        yield f"          objective: {objective.name}"
        yield f"          severity: {burn.severity}"
        yield "        annotations:"
        summary = (
            f"{objective.name} burns its error budget {burn.factor:g} times too fast ({burn.long} and {burn.short})"
        )
        yield f"          summary: {_quoted(summary)}"
        yield f"          description: {_quoted(_advice(objective))}"


def _advice(objective: Objective) -> str:
    if objective.kind == "lag":
        return f"ottla monitor lag -g {objective.group} shows the partitions; ottla groups describe the members."
    return "ottla doctor finds the cause; ottla monitor shows which broker is slow or refuses records."


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"

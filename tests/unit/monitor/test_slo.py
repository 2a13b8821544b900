"""Objectives, and the rules that are made of them; promtool checks them where it is installed."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from ottla.monitor.group_watch import groups_text
from ottla.monitor.latencies import Latencies
from ottla.monitor.ledger import PartitionLedger
from ottla.monitor.mirror_watch import mirrors_text
from ottla.monitor.outages import Outages
from ottla.monitor.probe import Probe
from ottla.monitor.report import BOUNDS, prometheus_text
from ottla.monitor.series import SERIES
from ottla.monitor.slo import BURNS, read_objectives, rules_yaml

FILE = """
[[objective]]
name = "writes"
kind = "availability"
target = 99.9

[[objective]]
name = "fast"
kind = "latency"
target = 99
threshold_ms = 100

[[objective]]
name = "billing-keeps-up"
kind = "lag"
target = 99.5
group = "billing"
threshold_seconds = 60
"""


def test_every_objective_has_a_rule_for_each_window_and_an_alert_for_each_pair() -> None:
    text = rules_yaml(read_objectives(FILE))
    windows = {window for burn in BURNS for window in (burn.long, burn.short)}
    assert text.count("- record:") == 3 * len(windows)
    assert text.count("- alert:") == 3 * len(BURNS)
    # 14.4 times a budget of 0.1 %.
    assert 'ottla:slo_bad:ratio_rate1h{objective="writes"} > 0.0144 and' in text


def test_the_rules_use_metrics_that_the_monitor_exports() -> None:
    assert set(re.findall(r"ottla_monitor_\w+", rules_yaml(read_objectives(FILE)))) <= SERIES


RULES = Path(__file__).parents[3] / "docs/monitoring/prometheus-alerts.yml"


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed (Debian: prometheus)")
def test_promtool_accepts_the_rules(tmp_path: Path) -> None:
    path = tmp_path / "rules.yml"
    path.write_text(rules_yaml(read_objectives(FILE)))
    done = subprocess.run(["promtool", "check", "rules", str(path), str(RULES)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("x = ", "The file is no TOML"),
        ("", "The file has no objective"),
        ('[[objective]]\nname = "a b"', "needs a name of letters"),
        ('[[objective]]\nname = "a"\nkind = "speed"', "kind must be one of availability, latency, lag"),
        ('[[objective]]\nname = "a"\nkind = "availability"\ntarget = 100', "such as 99.9, not 100"),
        ('[[objective]]\nname = "a"\nkind = "latency"\ntarget = 99\nthreshold_ms = 99', "must be a bound"),
        ('[[objective]]\nname = "a"\nkind = "lag"\ntarget = 99\ngroup = "g"', "needs group and threshold_seconds"),
        ('[[objective]]\nname = "a"\nkind = "availability"\ntarget = 99\nteam = "x"', "there is no setting 'team'"),
        ('[[objective]]\nname = "a"\nkind = "availability"\ntarget = 99\n' * 2, "two objectives with the name 'a'"),
    ],
)
def test_a_file_that_makes_no_sense_is_explained(text: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=re.escape(sentence)):
        read_objectives(text)


def test_buckets_of_the_histogram_count_what_is_below() -> None:
    latencies = Latencies()
    for milliseconds in (0.5, 3, 30, 300, 3_000, 30_000):
        latencies.add(milliseconds)
    counts = [latencies.at_most(bound * 1000) for bound in BOUNDS]
    assert counts == [1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 5, 5]


def test_the_list_of_series_is_that_of_the_pages() -> None:
    probe = Probe.__new__(Probe)
    probe.ledgers, probe.leaders, probe.outages = {0: PartitionLedger()}, {0: 1}, Outages(1.0)
    probe.commit_latency, probe.commits_failed, probe.reads_failed = Latencies(), 0, 0
    series = set()
    pages = [*prometheus_text(probe, 0.0), *groups_text([]), *mirrors_text([])]
    for name, kind in re.findall(r"# TYPE (\S+) (\S+)", "".join(pages)):
        series |= {f"{name}_{part}" for part in ("bucket", "sum", "count")} if kind == "histogram" else {name}
    assert series == SERIES

"""The pages of all nodes of a machine as one page."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["joined_metrics", "sample_sum"]


def joined_metrics(pages: Mapping[int, str]) -> str:
    """The metrics of several nodes in Prometheus' text format: every sample gets the label `node`."""
    families: dict[str, list[str]] = {}
    heads: dict[str, list[str]] = {}
    for node_id, page in pages.items():
        family = ""
        for line in page.splitlines():
            if line.startswith("#"):
                words = line.split(" ", 3)
                if len(words) > 2 and words[1] in ("HELP", "TYPE"):
                    family = words[2]
                    if line not in heads.setdefault(family, []):
                        heads[family].append(line)
                continue
            if line:
                families.setdefault(family, []).append(_labelled(line, node_id))
    lines = [line for family, samples in families.items() for line in (*heads.get(family, ()), *samples)]
    return "\n".join(lines) + "\n" if lines else ""


def sample_sum(page: str, name: str) -> float | None:
    """The sum of a metric's samples on a page; None if it has none."""
    samples = [line for line in page.splitlines() if line.startswith((f"{name} ", f"{name}{{"))]
    return sum(float(line.rsplit(" ", 1)[1]) for line in samples) if samples else None


def _labelled(line: str, node_id: int) -> str:
    brace, space = line.find("{"), line.find(" ")
    if 0 <= brace < space:
        labels = line[brace + 1 :]
        return f'{line[:brace]}{{node="{node_id}"{"" if labels.startswith("}") else ","}{labels}'
    return f'{line[:space]}{{node="{node_id}"}}{line[space:]}'

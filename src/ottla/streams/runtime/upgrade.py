"""Compares the topics that an application needs with those of its earlier topology, and explains what has changed.

A store whose generated name has moved would start empty, while its state lies in a changelog that nothing reads.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

__all__ = ["TopologyChange", "find_change"]

_CHANGELOG, _REPARTITION = "-changelog", "-repartition"


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyChange:
    application_id: str
    # Changelogs that do not exist yet, and topics of an earlier topology that are not needed any more.
    new_changelogs: tuple[str, ...]
    unused: tuple[str, ...]

    @property
    def loses_state(self) -> bool:
        """True if stores would start empty although an earlier topology has left state."""
        return bool(self.new_changelogs) and any(topic.endswith(_CHANGELOG) for topic in self.unused)

    def explain(self) -> str:
        if not self.unused:
            return ""
        unused = f"Topics of the earlier topology that nothing uses any more: {', '.join(self.unused)}."
        if not self.loses_state:
            return f"The topology of {self.application_id} has changed. {unused} Delete them if they are not needed."
        prefix, suffix = len(self.application_id) + 1, len(_CHANGELOG)
        stores = ", ".join(topic[prefix:-suffix] for topic in self.new_changelogs)
        return (
            f"The topology of {self.application_id} has changed, and these stores would start empty: {stores}. "
            f"{unused} "
            "If a store has only another name now, give it its old name with Materialized.as_(...). To process the "
            "input again, run the new topology with another application.id beside the old one, or stop the application "
            f"and reset it with: ottla streams reset {self.application_id}. If empty stores are right, set "
            "topology.change=accept."
        )


def find_change(
    application_id: str, needed: Iterable[str], existing: Collection[str], other_ids: Iterable[str] = ()
) -> TopologyChange:
    """`other_ids` are ids of other applications, whose topics may begin with the same words."""
    needed = sorted(needed)
    prefixes = tuple(f"{other_id}-" for other_id in other_ids if other_id.startswith(f"{application_id}-"))
    earlier = {
        topic
        for topic in existing
        if topic.startswith(f"{application_id}-")
        and topic.endswith((_CHANGELOG, _REPARTITION))
        and not (prefixes and topic.startswith(prefixes))
    }
    return TopologyChange(
        application_id=application_id,
        new_changelogs=tuple(topic for topic in needed if topic.endswith(_CHANGELOG) and topic not in existing),
        unused=tuple(sorted(earlier - set(needed))),
    )

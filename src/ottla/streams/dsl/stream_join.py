"""Builds joins of two streams."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla.streams.dsl.graph import GraphNode
from ottla.streams.dsl.handle import stateless
from ottla.streams.dsl.options import StreamJoined
from ottla.streams.dsl.windows import JoinWindows
from ottla.streams.operators.stateless import PassThrough
from ottla.streams.operators.stream_joins import JoinSide, JoinWindow, SelfJoin
from ottla.streams.serdes import Serde
from ottla.streams.state.specification import StoreKind, StoreSpecification
from ottla.streams.topology.topology import Topology

if TYPE_CHECKING:
    from ottla.streams.dsl.stream import KStream

__all__ = ["join_streams"]


class StreamJoinNode(GraphNode):
    """The two sides of a join, their stores, and the node that merges their results."""

    def __init__(self, name: str, plan: _Plan, *, tolerates_null_keys: bool) -> None:
        super().__init__(name, tolerates_null_keys=tolerates_null_keys)
        self._plan = plan
        self._uses_single_store = False

    def use_single_store(self) -> None:
        """A stream joined with itself needs one store only; the second window node is removed."""
        plan = self._plan
        if plan.is_left:
            return
        self._uses_single_store = True
        self.parents[0].remove_child(plan.window_nodes[1])

    def write(self, topology: Topology) -> None:
        plan = self._plan
        left, right = plan.stores
        if self._uses_single_store:
            topology.add_processor(self.name, plan.self_join(), plan.windowed[0])
            topology.add_state_store(left, plan.windowed[0], self.name)
            return
        topology.add_processor(plan.sides[0], plan.side(is_left=True), plan.windowed[0])
        topology.add_processor(plan.sides[1], plan.side(is_left=False), plan.windowed[1])
        topology.add_processor(self.name, PassThrough, *plan.sides)
        topology.add_state_store(left, plan.windowed[0], plan.sides[1])
        topology.add_state_store(right, plan.windowed[1], plan.sides[0])
        if plan.unjoined is not None:
            topology.add_state_store(plan.unjoined, *plan.sides)


class _Plan:
    """Names, stores and functions of a join."""

    def __init__(self, joiner: Callable[[Any, Any, Any], Any], windows: JoinWindows, joined: StreamJoined) -> None:
        self.joiner = joiner
        self.windows = windows
        self.joined = joined
        self.is_left = False
        self.is_right = False
        self.windowed: tuple[str, str] = ("", "")
        self.sides: tuple[str, str] = ("", "")
        self.window_nodes: list[GraphNode] = []
        self.unjoined: StoreSpecification | None = None

    def store(self, name: str, value_serde: Serde | None) -> StoreSpecification:
        return StoreSpecification(
            name,
            StoreKind.WINDOW,
            self.joined.key_serde,
            value_serde,
            is_logged=self.joined.is_logged,
            retention_ms=self.windows.size_ms + self.windows.grace_ms,
            window_size_ms=self.windows.size_ms,
            retains_duplicates=True,
        )

    def name_stores(self, generated: tuple[str, str]) -> None:
        suffixes = (
            "-outer-this-join" if self.is_right else "-this-join",
            "-outer-other-join" if self.is_left else "-other-join",
        )
        base = self.joined.store_name
        names = generated if base is None else (base + suffixes[0], base + suffixes[1])
        joined = self.joined
        self.stores = (
            self.store(f"{names[0]}-store", joined.value_serde),
            self.store(f"{names[1]}-store", joined.other_value_serde),
        )
        if not self.is_left:
            return
        if base is not None:
            name = base + ("-outer-shared-join" if self.is_right else "-left-shared-join")
        else:
            name = f"KSTREAM-OUTERSHARED-{generated[0][-10:]}"
        self.unjoined = StoreSpecification(
            f"{name}-store",
            StoreKind.OUTER_JOIN,
            joined.key_serde,
            None,
            is_logged=joined.is_logged,
            extra=(joined.value_serde, joined.other_value_serde),
        )

    def side(self, *, is_left: bool) -> Callable[[], Any]:
        return functools.partial(
            JoinSide,
            join=self.sides[0],
            is_left=is_left,
            other_store=self.stores[1 if is_left else 0].name,
            unjoined_store=None if self.unjoined is None else self.unjoined.name,
            emits_unjoined=self.is_left if is_left else self.is_right,
            joiner=self.joiner,
            before_ms=self.windows.before_ms,
            after_ms=self.windows.after_ms,
            grace_ms=self.windows.grace_ms,
        )

    def self_join(self) -> Callable[[], Any]:
        return functools.partial(
            SelfJoin,
            store=self.stores[0].name,
            joiner=self.joiner,
            before_ms=self.windows.before_ms,
            after_ms=self.windows.after_ms,
            retention_ms=self.windows.size_ms + self.windows.grace_ms,
        )


def join_streams(
    left: KStream,
    right: KStream,
    joiner: Callable[[Any, Any, Any], Any],
    windows: JoinWindows,
    joined: StreamJoined,
    *,
    is_left: bool,
    is_right: bool,
) -> KStream:
    """A join; `is_left` and `is_right` select the sides whose records come out without a partner."""
    from ottla.streams.dsl.stream import KStream

    if left.needs_repartition:
        prefix = left.name if joined.name is None else f"{joined.name}-left"
        left = left.repartition_for_join(prefix, joined.key_serde, joined.value_serde)
    if right.needs_repartition:
        prefix = right.name if joined.name is None else f"{joined.name}-right"
        right = right.repartition_for_join(prefix, joined.key_serde, joined.other_value_serde)
    sources = left.copartition_with(right)
    graph = left.graph
    joined = StreamJoined(
        joined.key_serde or left.key_serde,
        joined.value_serde or left.value_serde,
        joined.other_value_serde or right.value_serde,
        joined.name,
        joined.store_name,
        joined.is_logged,
    )
    plan = _Plan(joiner, windows.checked(), joined)
    plan.is_left, plan.is_right = is_left, is_right
    name = joined.name
    plan.windowed = (
        graph.name(name, "KSTREAM-WINDOWED-", "-this-windowed"),
        graph.name(name, "KSTREAM-WINDOWED-", "-other-windowed"),
    )
    generated = (
        graph.new_name("KSTREAM-OUTERTHIS-" if is_right else "KSTREAM-JOINTHIS-"),
        graph.new_name("KSTREAM-OUTEROTHER-" if is_left else "KSTREAM-JOINOTHER-"),
    )
    plan.sides = generated
    if name is not None:
        plan.sides = (
            name + ("-outer-this-join" if is_right else "-this-join"),
            name + ("-outer-other-join" if is_left else "-other-join"),
        )
    merge = graph.name(name, "KSTREAM-MERGE-", "-merge")
    plan.name_stores(generated)
    for stream, windowed, store in zip((left, right), plan.windowed, plan.stores, strict=True):
        node = stateless(windowed, functools.partial(JoinWindow, store.name))
        plan.window_nodes.append(node)
        graph.add(stream.node, node)
    join_node = StreamJoinNode(merge, plan, tolerates_null_keys=is_left or is_right)
    graph.add([left.node, right.node], join_node)
    return KStream(graph, join_node, merge, sources, joined.key_serde, None)

"""Builds foreign-key joins of tables."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ottla.streams.dsl.aggregation import named_store
from ottla.streams.dsl.functions import with_key
from ottla.streams.dsl.graph import GraphNode
from ottla.streams.dsl.handle import key_value_specification, stateful, stateless
from ottla.streams.dsl.options import Materialized, TableJoined
from ottla.streams.operators.foreign_key import (
    ForeignKeySerdes,
    ForeignTableJoin,
    ResponseJoin,
    ResponseSerde,
    SubscriptionJoin,
    SubscriptionReceive,
    SubscriptionSend,
    SubscriptionSerde,
)
from ottla.streams.operators.tables import TableSource
from ottla.streams.serdes import Serde
from ottla.streams.state.specification import StoreKind, StoreSpecification
from ottla.streams.topology.topology import InternalTopic, Topology

if TYPE_CHECKING:
    from ottla.streams.dsl.table import KTable

__all__ = ["join_by_foreign_key"]

_FK = "KTABLE-FK-JOIN-"
_PROCESSOR = f"{_FK}SUBSCRIPTION-PROCESSOR-"


def join_by_foreign_key(
    left: KTable,
    right: KTable,
    extractor: Callable[..., Any],
    joiner: Callable[[Any, Any], Any],
    joined: TableJoined,
    materialized: Materialized | None,
    *,
    is_left: bool,
) -> KTable:
    from ottla.streams.dsl.table import KTable

    right.plan.send_old_values(force=True)
    left.plan.send_old_values(force=True)
    join = _Join(left, right, joined, is_left=is_left)
    topic, source = join.add_subscriptions(extractor)
    answers = join.add_right_side(source)
    response_source, sources = join.add_responses(answers)
    resolve = join.add_resolver(response_source, topic, joiner)
    graph = left.graph
    result = join.name("-result", f"{_FK}OUTPUT-")
    store, materialized = named_store(graph, materialized, f"{_FK}OUTPUT-")
    materialized = materialized.with_key_serde(materialized.key_serde or left.key_serde)
    plan = TableSource(store, materialized.store_name)
    node = _result(result, plan, key_value_specification(store, materialized))
    node.is_versioned = materialized.is_versioned
    graph.add(resolve, node)
    return KTable(graph, node, result, sources, left.key_serde, materialized.value_serde, plan)


class _Join:
    """The parts of a join, in the order in which Kafka Streams numbers them."""

    def __init__(self, left: KTable, right: KTable, joined: TableJoined, *, is_left: bool) -> None:
        self._left = left
        self._right = right
        self._joined = joined
        self._is_left = is_left
        self._graph = left.graph
        self._serdes = ForeignKeySerdes(left.key_serde, right.key_serde, left.value_serde)

    def name(self, suffix: str, prefix: str) -> str:
        return self._graph.name(self._joined.name, prefix, suffix)

    def add_subscriptions(self, extractor: Callable[..., Any]) -> tuple[str, GraphNode]:
        """Left rows subscribe at the partition of their foreign key."""
        graph, left, right = self._graph, self._left, self._right
        topic = self.name("-subscription-registration", f"{_FK}SUBSCRIPTION-REGISTRATION-") + "-topic"
        send = stateless(
            self.name("-subscription-registration-processor", f"{_FK}SUBSCRIPTION-REGISTRATION-"),
            functools.partial(
                SubscriptionSend,
                with_key(extractor),
                self._serdes,
                topic,
                is_left=self._is_left,
                uses_versions=left.node.has_versions,
            ),
        )
        graph.add(left.node, send)
        serde = SubscriptionSerde(left.key_serde)
        partitioner = _subscription_partitioner(self._joined)
        sink_name = self.name("-subscription-registration-sink", "KTABLE-SINK-")
        sink = _sink(sink_name, topic, right.key_serde, serde, partitioner)
        graph.add(send, sink)
        source_name = self.name("-subscription-registration-source", "KTABLE-SOURCE-")
        source = _source(source_name, topic, right.key_serde, serde)
        graph.add(sink, source)
        graph.copartition({*right.sources, source.name})
        return topic, source

    def add_right_side(self, source: GraphNode) -> tuple[GraphNode, GraphNode]:
        """The right side keeps subscriptions, and answers them: at once, and when a right row changes."""
        graph, right = self._graph, self._right
        store = self.name("-subscription-store", f"{_FK}SUBSCRIPTION-STATE-STORE-")
        specification = StoreSpecification(store, StoreKind.SUBSCRIPTION)
        graph.add(graph.root, GraphNode(store, functools.partial(_add_store, specification)))
        receive = stateful(
            self.name("-subscription-receive", _PROCESSOR),
            functools.partial(SubscriptionReceive, store, self._serdes),
            stores=[store],
        )
        graph.add(source, receive)
        view = right.plan.view()
        answer_name = self.name("-subscription-join-foreign", _PROCESSOR)
        answer = _viewing(answer_name, functools.partial(SubscriptionJoin, view), view)
        graph.add(receive, answer)
        changed = stateful(
            self.name("-foreign-join-subscription", _PROCESSOR),
            functools.partial(ForeignTableJoin, store, self._serdes, uses_versions=right.node.has_versions),
            stores=[store],
        )
        graph.add(right.node, changed)
        return answer, changed

    def add_responses(self, answers: tuple[GraphNode, GraphNode]) -> tuple[GraphNode, set[str]]:
        """Responses go back to the partition of the left key."""
        graph, left = self._graph, self._left
        topic = self.name("-subscription-response", f"{_FK}SUBSCRIPTION-RESPONSE-") + "-topic"
        serde = ResponseSerde(self._right.value_serde)
        sink_name = self.name("-subscription-response-sink", "KTABLE-SINK-")
        sink = _sink(sink_name, topic, left.key_serde, serde, _response_partitioner(self._joined))
        graph.add(answers, sink)
        source_name = self.name("-subscription-response-source", "KTABLE-SOURCE-")
        source = _source(source_name, topic, left.key_serde, serde)
        graph.add(sink, source)
        return source, graph.copartition({*left.sources, source.name})

    def add_resolver(self, source: GraphNode, topic: str, joiner: Callable[[Any, Any], Any]) -> GraphNode:
        view = self._left.plan.view()
        resolve = _viewing(
            self.name("-subscription-response-resolver", f"{_FK}SUBSCRIPTION-RESPONSE-RESOLVER-PROCESSOR-"),
            functools.partial(ResponseJoin, view, self._serdes, topic, joiner, is_left=self._is_left),
            view,
        )
        self._graph.add(source, resolve)
        return resolve


def _add_store(specification: StoreSpecification, topology: Topology, parents: Sequence[str]) -> None:  # noqa: ARG001
    topology.add_state_store(specification)


def _subscription_partitioner(joined: TableJoined) -> Callable[[str, Any, Any, int], int | None] | None:
    if joined.other_partitioner is None:
        return None
    partition_of = joined.other_partitioner
    return lambda topic, key, _, partitions: partition_of(topic, key, None, partitions)


def _response_partitioner(joined: TableJoined) -> Callable[[str, Any, Any, int], int | None]:
    if joined.partitioner is None:
        # The subscription carries the partition that it came from.
        return lambda _topic, _key, response, _partitions: response.primary_partition
    partition_of = joined.partitioner
    return lambda topic, key, _, partitions: partition_of(topic, key, None, partitions)


def _sink(
    name: str,
    topic: str,
    key_serde: Serde | None,
    value_serde: Serde,
    partitioner: Callable[[str, Any, Any, int], int | None] | None,
) -> GraphNode:
    def write(topology: Topology, parents: Sequence[str]) -> None:
        topology.add_internal_topic(InternalTopic(name=topic))
        topology.add_sink(name, topic, *parents, key_serde=key_serde, value_serde=value_serde, partitioner=partitioner)

    return GraphNode(name, write)


def _source(name: str, topic: str, key_serde: Serde | None, value_serde: Serde) -> GraphNode:
    def write(topology: Topology, parents: Sequence[str]) -> None:  # noqa: ARG001
        topology.add_source(name, topic, key_serde=key_serde, value_serde=value_serde)

    return GraphNode(name, write)


def _viewing(name: str, supplier: Callable[[], Any], view: Any) -> GraphNode:
    """A processor that reads a table."""

    def write(topology: Topology, parents: Sequence[str]) -> None:
        topology.add_processor(name, supplier, *parents)
        topology.connect_processor_and_state_stores(name, *view.stores)

    return GraphNode(name, write)


def _result(name: str, plan: TableSource, specification: StoreSpecification) -> GraphNode:
    def write(topology: Topology, parents: Sequence[str]) -> None:
        topology.add_processor(name, plan, *parents)
        if plan.is_materialized:
            topology.add_state_store(specification, name)

    return GraphNode(name, write)

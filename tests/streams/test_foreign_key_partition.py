"""Subscriptions of a foreign-key join carry the partition of their task, also for rows without a source record."""

from __future__ import annotations

from ottla.streams import Consumed, FixedKeyProcessor, Materialized, PunctuationType, Record, Serdes, StreamsBuilder
from ottla.streams.machine import ProcessorContext, StreamTask, TaskSettings
from ottla.streams.operators.foreign_key import SubscriptionSerde

TEXT = Serdes.string()


class Clock(FixedKeyProcessor):
    """Forwards a row at every punctuation."""

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        row = Record("left", "right", 0)
        context.schedule(1_000, PunctuationType.WALL_CLOCK_TIME, lambda _: context.forward(row))


def test_the_partition_of_a_row_that_a_punctuation_forwards() -> None:
    builder = StreamsBuilder()
    stored = Materialized.with_(TEXT, TEXT)
    left = builder.stream("in", Consumed.with_(TEXT, TEXT)).process_values(Clock).to_table(stored)
    right = builder.table("rows", Consumed.with_(TEXT, TEXT))
    left.join(right, lambda value: value, lambda *_: "joined", materialized=stored)
    topology = builder.build()
    task = StreamTask(topology, topology.node_groups()[0], TaskSettings(), task_id="0_3")
    task.punctuate_wall_clock(1_000)
    (subscription,) = task.take_outputs()[0]
    assert subscription.value is not None
    assert SubscriptionSerde(TEXT).deserialize(subscription.topic, subscription.value).primary_partition == 3

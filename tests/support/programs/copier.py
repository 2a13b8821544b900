"""Copies one partition in transactions, as Kafka's TransactionalMessageCopier does, with librdkafka.

    copier.py BOOTSTRAP INPUT OUTPUT PARTITION GROUP TRANSACTIONAL_ID RECORDS_PER_TRANSACTION

Every third transaction is aborted and its records are copied again. The program ends with status 0 at the end that the
partition had at the start, and with 1 after an error that another attempt may fix.
"""

from __future__ import annotations

import sys

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition


def copy(bootstrap: str, source: str, target: str, partition: int, group: str, name: str, size: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": name, "transaction.timeout.ms": 10_000})
    producer.init_transactions(30)
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )
    place = TopicPartition(source, partition)
    _, end = consumer.get_watermark_offsets(place, timeout=30)
    position = committed(consumer, place)
    consumer.assign([TopicPartition(source, partition, position)])
    attempts = 0
    while position < end:
        records = [record for record in consumer.consume(size, timeout=5) if record.error() is None]
        if not records:
            continue
        attempts += 1
        producer.begin_transaction()
        for record in records:
            producer.produce(target, record.value(), partition=partition)
        after = (records[-1].offset() or 0) + 1
        offsets = [TopicPartition(source, partition, after)]
        producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), 30)
        if attempts % 3 == 0:
            # The flush writes the aborted records to the log; they would otherwise stay in the producer's queue.
            producer.flush(10)
            producer.abort_transaction(30)
            consumer.seek(TopicPartition(source, partition, position))
        else:
            producer.commit_transaction(30)
            position = after


def committed(consumer: Consumer, place: TopicPartition) -> int:
    # A stable read: the open transaction of a previous instance has ended by now.
    (position,) = consumer.committed([place], timeout=30)
    return max(0, position.offset)


if __name__ == "__main__":
    bootstrap, source, target, partition, group, name, size = sys.argv[1:]
    try:
        copy(bootstrap, source, target, int(partition), group, name, int(size))
    except KafkaException as error:
        sys.exit(f"gave up: {error}")

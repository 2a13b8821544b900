"""The settings `errors.*` of a connector."""

from __future__ import annotations

from ottla.connect.work.error_policy import ErrorPolicy


def test_settings_are_kafka_connects() -> None:
    assert ErrorPolicy.from_config({}) == ErrorPolicy()
    policy = ErrorPolicy.from_config(
        {
            "errors.tolerance": "ALL",
            "errors.log.enable": "true",
            "errors.log.include.messages": "true",
            "errors.deadletterqueue.topic.name": "dead",
            "errors.deadletterqueue.topic.replication.factor": "1",
            "errors.deadletterqueue.context.headers.enable": "true",
        }
    )
    assert policy == ErrorPolicy(
        tolerates_all=True,
        logs=True,
        logs_messages=True,
        dead_letter_topic="dead",
        dead_letter_replication_factor=1,
        dead_letter_headers=True,
    )
    assert policy.looks_at_failures

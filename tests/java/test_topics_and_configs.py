"""kafka-topics, kafka-configs, kafka-cluster, kafka-broker-api-versions, kafka-features."""

from __future__ import annotations

import re

from tests.java.conftest import Tool


def test_topics_are_created_listed_described_and_deleted(run: Tool, topic: str) -> None:
    run("TopicCommand", "--create", "--topic", topic, "--partitions", 3, "--config", "retention.ms=7200000")
    assert topic in run("TopicCommand", "--list").stdout.split()
    text = run("TopicCommand", "--describe", "--topic", topic).stdout
    assert re.search(
        r"TopicId: \S{22}\tPartitionCount: 3\tReplicationFactor: 1\tConfigs: .*retention\.ms=7200000", text
    )
    assert re.findall(r"Partition: (\d)\tLeader: (\d+)\tReplicas: \2\tIsr: \2", text) == [
        (str(partition), node) for partition, node in enumerate(re.findall(r"Leader: (\d+)", text))
    ]
    run("TopicCommand", "--delete", "--topic", topic)
    assert topic not in run("TopicCommand", "--list").stdout.split()


def test_partitions_grow_and_never_shrink(run: Tool, topic: str) -> None:
    run("TopicCommand", "--create", "--topic", topic, "--partitions", 2)
    run("TopicCommand", "--alter", "--topic", topic, "--partitions", 5)
    assert "PartitionCount: 5" in run("TopicCommand", "--describe", "--topic", topic).stdout
    refused = run("TopicCommand", "--alter", "--topic", topic, "--partitions", 1, status=1)
    assert "InvalidPartitionsException" in refused.stdout + refused.stderr


def test_what_cannot_be_created_is_refused_with_kafkas_errors(run: Tool, topic: str) -> None:
    def refusal(*arguments: str | int) -> str:
        result = run("TopicCommand", "--create", "--topic", *arguments, status=1)
        return result.stdout + result.stderr

    run("TopicCommand", "--create", "--topic", topic)
    assert "TopicExistsException" in refusal(topic)
    assert "InvalidReplicationFactorException" in refusal(f"{topic}-2", "--replication-factor", 3)
    run("TopicCommand", "--create", "--topic", topic, "--if-not-exists")


def test_topic_settings_change_and_fall_back(run: Tool, topic: str) -> None:
    entity = ["--entity-type", "topics", "--entity-name", topic]
    run("TopicCommand", "--create", "--topic", topic)
    run("ConfigCommand", *entity, "--alter", "--add-config", "max.message.bytes=2000,cleanup.policy=[compact,delete]")
    text = run("ConfigCommand", *entity, "--describe").stdout
    assert re.search(
        r"max\.message\.bytes=2000 sensitive=false synonyms=\{DYNAMIC_TOPIC_CONFIG:max\.message\.bytes=2000", text
    )
    assert "cleanup.policy=compact,delete" in text
    run("ConfigCommand", *entity, "--alter", "--delete-config", "max.message.bytes")
    assert "max.message.bytes=2000" not in run("ConfigCommand", *entity, "--describe").stdout
    all_settings = run("ConfigCommand", *entity, "--describe", "--all").stdout
    refused = run("ConfigCommand", *entity, "--alter", "--add-config", "min.insync.replicas=0", status=1)
    assert "InvalidConfigurationException" in refused.stdout + refused.stderr
    assert (
        "max.message.bytes=1048588 sensitive=false synonyms={DEFAULT_CONFIG:message.max.bytes=1048588}" in all_settings
    )


def test_broker_settings_change_while_it_runs(run: Tool) -> None:
    cluster = ["--entity-type", "brokers", "--entity-default"]
    run("ConfigCommand", *cluster, "--alter", "--add-config", "log.cleaner.threads=2")
    assert "log.cleaner.threads=2" in run("ConfigCommand", *cluster, "--describe").stdout
    run("ConfigCommand", *cluster, "--alter", "--delete-config", "log.cleaner.threads")
    assert "log.cleaner.threads=2" not in run("ConfigCommand", *cluster, "--describe").stdout
    refused = run("ConfigCommand", *cluster, "--alter", "--add-config", "log.dirs=elsewhere", status=1)
    assert "InvalidRequestException" in refused.stdout + refused.stderr
    loggers = run("ConfigCommand", "--entity-type", "broker-loggers", "--entity-name", 1, "--describe")
    assert "root=" in loggers.stdout


def test_the_cluster_says_what_it_is(run: Tool) -> None:
    assert re.search(r"Cluster ID: \S{22}$", run("ClusterTool", "cluster-id").stdout.strip())
    versions = run("BrokerApiVersionsCommand").stdout
    for name in ("Produce(0): 0 to 13", "Fetch(1): 4 to 18", "Metadata(3): 0 to 13", "ApiVersions(18): 0 to 5"):
        assert name in versions
    features = run("FeatureCommand", "describe").stdout
    assert re.search(r"metadata\.version\s.*SupportedMaxVersion: 4\.3-IV0", features)

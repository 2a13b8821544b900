"""Kafka's tools report disabled features clearly and at once; kafka-configs for users' credentials works."""

from __future__ import annotations

import pytest

from tests.java.conftest import Tool

SHARE_GROUPS = "org.apache.kafka.tools.consumer.group.ShareGroupCommand"
SHARE_CONSUMER = "org.apache.kafka.tools.consumer.ConsoleShareConsumer"
STREAMS_GROUPS = "org.apache.kafka.tools.streams.StreamsGroupCommand"
NOT_SUPPORTED = "UnsupportedVersionException: The version of API is not supported"


def test_credentials_of_users_are_set_described_and_removed(run: Tool) -> None:
    users, alice = ("--entity-type", "users"), ("--entity-type", "users", "--entity-name", "alice")
    secret = "a-secret-of-alice"
    run("ConfigCommand", *alice, "--alter", "--add-config", f"SCRAM-SHA-256=[iterations=8192,password={secret}]")
    run("ConfigCommand", *alice, "--alter", "--add-config", f"SCRAM-SHA-512=[password={secret}]")
    credentials = "user-principal 'alice' are SCRAM-SHA-256=iterations=8192, SCRAM-SHA-512=iterations=4096"
    for described in (run("ConfigCommand", *alice, "--describe"), run("ConfigCommand", *users, "--describe")):
        assert credentials in described.stdout
        assert secret not in described.stdout
    run("ConfigCommand", *alice, "--alter", "--delete-config", "SCRAM-SHA-256")
    assert "are SCRAM-SHA-512=iterations=4096" in run("ConfigCommand", *alice, "--describe").stdout
    run("ConfigCommand", *alice, "--alter", "--delete-config", "SCRAM-SHA-512")
    assert "SCRAM" not in run("ConfigCommand", *users, "--describe").stdout
    refused = run("ConfigCommand", *alice, "--alter", "--delete-config", "SCRAM-SHA-512", status=1)
    assert "ResourceNotFoundException" in refused.stderr


def test_there_are_no_access_rules_without_an_authorizer(run: Tool) -> None:
    rule = ("--allow-principal", "User:alice", "--operation", "Read", "--topic", "any")
    for arguments in (("--list",), ("--add", *rule), ("--remove", "--force", *rule)):
        refused = run("AclCommand", *arguments, status=1)
        assert "SecurityDisabledException" in refused.stdout + refused.stderr


def test_there_are_no_tokens_for_those_who_did_not_authenticate_themselves(run: Tool) -> None:
    for arguments in (
        ("--describe",),
        ("--create", "--max-life-time-period", "-1"),
        ("--renew", "--hmac", "bm9uZQ==", "--renew-time-period", "-1"),
        ("--expire", "--hmac", "bm9uZQ==", "--expiry-time-period", "-1"),
    ):
        refused = run("DelegationTokenCommand", *arguments, "--command-config", "/dev/null", status=1)
        assert "UnsupportedByAuthenticationException" in refused.stderr


def test_no_share_groups_and_no_streams_groups_are_listed(run: Tool) -> None:
    assert run(SHARE_GROUPS, "--list").stdout.strip() == ""
    assert run(STREAMS_GROUPS, "--list").stdout.strip() == ""
    for kind in ("--share", "--streams"):
        assert run("GroupsCommand", "--list", kind).stdout.split() == ["GROUP", "TYPE", "PROTOCOL"]


@pytest.mark.parametrize("tool", [SHARE_GROUPS, STREAMS_GROUPS])
def test_what_is_asked_of_such_a_group_is_refused(run: Tool, tool: str) -> None:
    for more in ((), ("--members",), ("--state",)):
        refused = run(tool, "--describe", "--group", "nobody", *more, status=None)
        assert NOT_SUPPORTED in refused.stdout
    assert "could not be deleted" in run(tool, "--delete", "--group", "nobody", status=None).stdout


def test_a_share_consumer_is_told_that_share_groups_are_off(run: Tool, topic: str) -> None:
    run("TopicCommand", "--create", "--topic", topic)
    # The tool gets the error in the background, and ends only with its time-out.
    for timeout_ms in (1_000, 10_000, 60_000):
        refused = run(SHARE_CONSUMER, "--topic", topic, "--group", topic, "--timeout-ms", timeout_ms, status=None)
        if "The cluster does not support the share group protocol" in refused.stderr:
            return
    raise AssertionError(refused.stderr)

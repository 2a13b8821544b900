"""Kafka's own tools with the `client.properties` of `ottla up --secure`."""

from __future__ import annotations

from pathlib import Path

from tests.support.java import ToolServer
from tests.support.secured_up import SecuredUp


def test_kafkas_tools_read_the_file(java: ToolServer, tmp_path: Path) -> None:
    with SecuredUp(tmp_path / "secured") as cluster:
        where = ("--bootstrap-server", cluster.bootstrap, "--command-config", cluster.file("client.properties"))
        created = java.run("TopicCommand", *map(str, where), "--create", "--topic", "orders")
        assert created.status == 0, created
        listed = java.run("TopicCommand", *map(str, where), "--list")
        assert "orders" in listed.stdout
        user = (
            "--alter",
            "--entity-type",
            "users",
            "--entity-name",
            "alice",
            "--add-config",
            "SCRAM-SHA-512=[password=x]",
        )
        altered = java.run("ConfigCommand", *map(str, where), *user)
        assert "Completed" in altered.stdout, altered
        acls = java.run(
            "AclCommand",
            *map(str, where),
            "--add",
            "--allow-principal",
            "User:alice",
            "--producer",
            "--topic",
            "orders",
        )
        assert "User:alice" in acls.stdout, acls

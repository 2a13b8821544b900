"""Connects a broker with the Schema Registry of its configuration, for topics that check schemas."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.replica.schema_checks import SchemaChecks

if TYPE_CHECKING:
    from ottla.broker.broker import Broker

__all__ = ["use_registry"]

_TIMEOUT_SECONDS = 5.0


def use_registry(broker: Broker) -> None:
    urls = [url.strip() for url in broker.config.confluent_schema_registry_url.split(",") if url.strip()]
    if not urls:
        return
    login = broker.config.confluent_basic_auth_user_info
    user_info = "" if login is None else login.value

    def ask(path: str) -> bytes | None:
        """The module is imported with the first question: it brings HTTP along."""
        from ottla.host.schema_lookups import ask_registry

        return ask_registry(urls, user_info, _TIMEOUT_SECONDS, path)

    broker.replicas.validations.use_registry(SchemaChecks(broker.world, ask))

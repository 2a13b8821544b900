"""Quotas of users, client ids and addresses (KIP-546)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple

from ottla.client.cluster import Cluster
from ottla.client.errors import check, error_of
from ottla.model.errors import KafkaError
from ottla.wire.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    OpData,
    RequestEntryData,
)
from ottla.wire.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)

__all__ = ["QuotaComponent", "QuotaEntity", "QuotaMatch", "Quotas"]

# Pairs of kind ("user", "client-id", "ip") and name, None for the default; sorted.
QuotaEntity = tuple[tuple[str, str | None], ...]


class QuotaMatch(IntEnum):
    EXACT = 0
    DEFAULT = 1
    ANY = 2


class QuotaComponent(NamedTuple):
    """A filter for entities of one type."""

    kind: str
    match: QuotaMatch
    name: str | None = None


class Quotas:
    """`admin.quotas`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def describe(
        self, components: Iterable[QuotaComponent] = (), *, strict: bool = False
    ) -> dict[QuotaEntity, dict[str, float]]:
        """The quotas of matching entities; `strict` excludes entities with components of other types."""
        response: DescribeClientQuotasResponse = await self._cluster.ask_any(
            DescribeClientQuotasRequest(
                components=[
                    ComponentData(entity_type=component.kind, match_type=component.match, match=component.name)
                    for component in components
                ],
                strict=strict,
            )
        )
        check(response.error_code, response.error_message)
        return {
            _entity((part.entity_type, part.entity_name) for part in entry.entity): {
                value.key: value.value for value in entry.values
            }
            for entry in response.entries or ()
        }

    async def alter(
        self, changes: Mapping[QuotaEntity, Mapping[str, float | None]], *, validate_only: bool = False
    ) -> dict[QuotaEntity, KafkaError | None]:
        """Sets quotas, and removes those whose value is None. All others stay unchanged."""
        request = AlterClientQuotasRequest(
            entries=[
                RequestEntryData(
                    entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
                    ops=[
                        OpData(key=key, value=0.0 if value is None else value, remove=value is None)
                        for key, value in quotas.items()
                    ],
                )
                for entity, quotas in changes.items()
            ],
            validate_only=validate_only,
        )
        response: AlterClientQuotasResponse = await self._cluster.ask_controller(
            request, lambda answer: [entry.error_code for entry in answer.entries]
        )
        return {
            _entity((part.entity_type, part.entity_name) for part in entry.entity): error_of(
                entry.error_code, entry.error_message
            )
            for entry in response.entries
        }


def _entity(parts: Iterable[tuple[str, str | None]]) -> QuotaEntity:
    return tuple(sorted(parts, key=lambda part: part[0]))

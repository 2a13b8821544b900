"""Elects the instance that writes, over the classic group protocol, as Confluent's registries do.

Every instance joins the group with its address. The group's leader names the writer: the instance that writes already,
else the eligible instance with the lowest address. An instance without an answer from its coordinator for the time of a
session stops writing; the transactional id of the topic's writer fences an instance that does not notice.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ottla.client.classic_member import ClassicGroup, ClassicMember, Heartbeat
from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError
from ottla.model.errors import KafkaError

__all__ = ["Election", "Identity", "choose_writer"]

logger = logging.getLogger(__name__)

_PROTOCOL_TYPE, _PROTOCOL_NAME = "sr", "v0"
_SESSION_MS, _REBALANCE_MS = 10_000, 10_000
_HEARTBEAT_SECONDS = 1.0
_RETRY_SECONDS = 0.5
_DUPLICATE_URLS = 1


@dataclass(frozen=True, slots=True)
class Identity:
    """The address of an instance for the other instances, and whether it may write."""

    host: str
    port: int
    scheme: str = "http"
    is_eligible: bool = True

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"

    def as_json(self, *, is_writer: bool) -> dict[str, Any]:
        return {
            "version": 1,
            "host": self.host,
            "port": self.port,
            "master_eligibility": self.is_eligible,
            "scheme": self.scheme,
            "leader": is_writer,
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Identity:
        eligible = bool(value.get("master_eligibility", True))
        return cls(str(value["host"]), int(value["port"]), str(value.get("scheme") or "http"), eligible)


def choose_writer(members: Mapping[str, Mapping[str, Any]]) -> tuple[str | None, Identity | None, int]:
    """The member that writes, its identity, and an error code. Two instances with the same address cannot work."""
    identities = {member: Identity.from_json(value) for member, value in members.items()}
    eligible = {member: identity for member, identity in identities.items() if identity.is_eligible}
    if len({identity.url for identity in identities.values()}) < len(identities):
        return None, None, _DUPLICATE_URLS
    if not eligible:
        return None, None, 0
    writing = [member for member in eligible if members[member].get("leader") is True]
    member = min(writing or eligible, key=lambda candidate: (eligible[candidate].url, candidate))
    return member, eligible[member], 0


class Election:
    """`on_elected(is_writer, identity of the writer)` is called after every rebalance and on the loss of a session."""

    def __init__(
        self,
        cluster: Cluster,
        group_id: str,
        identity: Identity,
        on_elected: Callable[[bool, Identity | None], Awaitable[None]],
    ) -> None:
        self._identity = identity
        self._on_elected = on_elected
        self._is_writer = False
        self._member = ClassicMember(
            cluster,
            ClassicGroup(
                group_id=group_id,
                protocol_type=_PROTOCOL_TYPE,
                session_timeout_ms=_SESSION_MS,
                rebalance_timeout_ms=_REBALANCE_MS,
                answer_timeout_ms=_SESSION_MS + _REBALANCE_MS,
                deadline_ms=_SESSION_MS + _REBALANCE_MS,
            ),
        )

    async def run(self) -> None:
        """Runs until it is cancelled."""
        while True:
            try:
                await self._generation()
            except (ValueError, KeyError, TypeError) as error:
                logger.warning("The group of registries has a member that is no registry: %r", error)
                await self._elected(False, None)
                await asyncio.sleep(_RETRY_SECONDS)
            except (ClientError, KafkaError, TimeoutError) as error:
                logger.warning("The group of registries cannot be reached and is tried again: %s", error)
                if self._member.is_silent:
                    await self._elected(False, None)
                await asyncio.sleep(_RETRY_SECONDS)

    async def leave(self) -> None:
        await self._member.leave("the registry stops")

    async def _generation(self) -> None:
        metadata = _encoded(self._identity.as_json(is_writer=self._is_writer))
        joined = await self._member.join({_PROTOCOL_NAME: metadata})
        if joined is None:
            return
        assignments: dict[str, bytes] = {}
        if joined.leader == joined.member_id:
            members = {member.member_id: json.loads(bytes(member.metadata)) for member in joined.members}
            member, identity, error = choose_writer(members)
            answer = {
                "version": 1,
                "error": error,
                "master": member,
                "master_identity": None if identity is None else identity.as_json(is_writer=True),
            }
            assignments = dict.fromkeys(members, _encoded(answer))
        content = await self._member.sync(joined, assignments)
        if content is None:
            return
        assignment = json.loads(bytes(content))
        if assignment.get("error") == _DUPLICATE_URLS:
            logger.error("Two registries of the group have the address %s; no one may write.", self._identity.url)
        identity = assignment.get("master_identity")
        await self._elected(
            assignment.get("master") == joined.member_id, None if identity is None else Identity.from_json(identity)
        )
        await self._heartbeats()

    async def _heartbeats(self) -> None:
        """Returns when the member has to join again."""
        while True:
            await asyncio.sleep(_HEARTBEAT_SECONDS)
            answer = await self._member.heartbeat(within_session=True)
            if answer is Heartbeat.REMOVED:
                await self._elected(False, None)
            if answer is not Heartbeat.ALIVE:
                return

    async def _elected(self, is_writer: bool, identity: Identity | None) -> None:
        self._is_writer = is_writer
        await self._on_elected(is_writer, identity)


def _encoded(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()

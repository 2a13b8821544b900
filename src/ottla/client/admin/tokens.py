"""Delegation tokens (KIP-48, KIP-373): short-lived credentials that act for a user.

A client logs in with a token over SCRAM: the id is the user, the HMAC in base64 is the password, and the login module
has the option `tokenauth=true`.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import dataclass, field

from ottla.client.cluster import Cluster
from ottla.client.errors import check
from ottla.wire.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from ottla.wire.messages.describe_delegation_token import (
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from ottla.wire.messages.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
from ottla.wire.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse

__all__ = ["DelegationToken", "DelegationTokens"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegationToken:
    """Times are in milliseconds since 1970. Principals are written as `User:alice`."""

    token_id: str
    # The secret of the token.
    hmac: bytes = field(repr=False)
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issued_ms: int
    expires_ms: int
    max_ms: int

    @property
    def password(self) -> str:
        """The HMAC as a client logs in with it."""
        return base64.b64encode(self.hmac).decode()


class DelegationTokens:
    """`admin.tokens`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def create(
        self, *, renewers: Iterable[str] = (), max_lifetime_ms: int = -1, owner: str | None = None
    ) -> DelegationToken:
        """A new token of the caller, or of another owner; a lifetime of -1 is the longest that the cluster allows."""
        renewer_names = tuple(renewers)
        kind, name = (None, None) if owner is None else _principal(owner)
        request = CreateDelegationTokenRequest(
            owner_principal_type=kind,
            owner_principal_name=name,
            renewers=[
                CreatableRenewers(principal_type=kind, principal_name=name)
                for kind, name in map(_principal, renewer_names)
            ],
            max_lifetime_ms=max_lifetime_ms,
        )
        response: CreateDelegationTokenResponse = await self._cluster.ask_any(request)
        check(response.error_code)
        token_owner = f"{response.principal_type}:{response.principal_name}"
        return DelegationToken(
            token_id=response.token_id,
            hmac=bytes(response.hmac),
            owner=token_owner,
            requester=_requester(
                response.token_requester_principal_type, response.token_requester_principal_name, token_owner
            ),
            renewers=renewer_names,
            issued_ms=response.issue_timestamp_ms,
            expires_ms=response.expiry_timestamp_ms,
            max_ms=response.max_timestamp_ms,
        )

    async def renew(self, hmac: bytes, *, period_ms: int = -1) -> int:
        """Moves the expiry time, by default by the cluster's own period. Returns the new expiry time."""
        request = RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms)
        response: RenewDelegationTokenResponse = await self._cluster.ask_any(request)
        check(response.error_code)
        return response.expiry_timestamp_ms

    async def expire(self, hmac: bytes, *, period_ms: int = -1) -> int:
        """Sets the expiry time, by default to now, which removes the token. Returns the expiry time."""
        request = ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms)
        response: ExpireDelegationTokenResponse = await self._cluster.ask_any(request)
        check(response.error_code)
        return response.expiry_timestamp_ms

    async def describe(self, owners: Iterable[str] | None = None) -> list[DelegationToken]:
        """The tokens that the caller may see: all, or those of these owners."""
        wanted = None
        if owners is not None:
            wanted = [
                DescribeDelegationTokenOwner(principal_type=kind, principal_name=name)
                for kind, name in map(_principal, owners)
            ]
        response: DescribeDelegationTokenResponse = await self._cluster.ask_any(
            DescribeDelegationTokenRequest(owners=wanted)
        )
        check(response.error_code)
        return [
            DelegationToken(
                token_id=token.token_id,
                hmac=bytes(token.hmac),
                owner=(owner := f"{token.principal_type}:{token.principal_name}"),
                requester=_requester(token.token_requester_principal_type, token.token_requester_principal_name, owner),
                renewers=tuple(f"{renewer.principal_type}:{renewer.principal_name}" for renewer in token.renewers),
                issued_ms=token.issue_timestamp,
                expires_ms=token.expiry_timestamp,
                max_ms=token.max_timestamp,
            )
            for token in response.tokens
        ]


def _principal(text: str) -> tuple[str, str]:
    kind, colon, name = text.partition(":")
    if not colon or not kind or not name:
        raise ValueError(f"{text!r} is not a principal like User:alice.")
    return kind, name


def _requester(kind: str, name: str, owner: str) -> str:
    """Brokers before 3.3 do not name the requester, who is the owner there."""
    return f"{kind}:{name}" if name else owner

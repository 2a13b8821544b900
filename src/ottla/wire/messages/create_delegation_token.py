# Written by tools/generate_messages.py from definitions/38_create_delegation_token.txt: change the definition, not this file.
"""CreateDelegationToken, API key 38.

Creates a delegation token; from 3 on for another owner than the requester (KIP-373).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.wire.message import EMPTY, Message, Request, Structure

if TYPE_CHECKING:
    from ottla.wire.message import Buffer

__all__ = [
    "CreatableRenewers",
    "CreateDelegationTokenRequest",
    "CreateDelegationTokenResponse",
]


class CreatableRenewers(Structure):
    """An element of `CreateDelegationTokenRequest.renewers`."""

    __slots__ = ("principal_type", "principal_name")

    FIELDS = (
        ("principal_type", "string", (0, 32767), None, None, "", False),
        ("principal_name", "string", (0, 32767), None, None, "", False),
    )

    def __init__(
        self,
        *,
        principal_type: str = "",
        principal_name: str = "",
    ) -> None:
        self.principal_type = principal_type
        self.principal_name = principal_name


class CreateDelegationTokenRequest(Request["CreateDelegationTokenResponse"]):
    """Request, versions 1 to 3, flexible since 2."""

    __slots__ = ("owner_principal_type", "owner_principal_name", "renewers", "max_lifetime_ms")

    API_KEY = 38
    VERSIONS = (1, 3)
    FLEXIBLE_SINCE = 2
    FIELDS = (
        ("owner_principal_type", "string", (3, 32767), (0, 32767), None, "", False),
        ("owner_principal_name", "string", (3, 32767), (0, 32767), None, "", False),
        ("renewers", "[CreatableRenewers]", (0, 32767), None, None, (), False),
        ("max_lifetime_ms", "int64", (0, 32767), None, None, 0, False),
    )

    def __init__(
        self,
        *,
        owner_principal_type: str | None = "",
        owner_principal_name: str | None = "",
        renewers: list[CreatableRenewers] = EMPTY,
        max_lifetime_ms: int = 0,
    ) -> None:
        self.owner_principal_type = owner_principal_type
        self.owner_principal_name = owner_principal_name
        self.renewers = [] if renewers is EMPTY else renewers
        self.max_lifetime_ms = max_lifetime_ms


class CreateDelegationTokenResponse(Message):
    """Response, versions 1 to 3, flexible since 2."""

    __slots__ = (
        "error_code",
        "principal_type",
        "principal_name",
        "token_requester_principal_type",
        "token_requester_principal_name",
        "issue_timestamp_ms",
        "expiry_timestamp_ms",
        "max_timestamp_ms",
        "token_id",
        "hmac",
        "throttle_time_ms",
    )

    API_KEY = 38
    VERSIONS = (1, 3)
    FLEXIBLE_SINCE = 2
    FIELDS = (
        ("error_code", "int16", (0, 32767), None, None, 0, False),
        ("principal_type", "string", (0, 32767), None, None, "", False),
        ("principal_name", "string", (0, 32767), None, None, "", False),
        ("token_requester_principal_type", "string", (3, 32767), None, None, "", False),
        ("token_requester_principal_name", "string", (3, 32767), None, None, "", False),
        ("issue_timestamp_ms", "int64", (0, 32767), None, None, 0, False),
        ("expiry_timestamp_ms", "int64", (0, 32767), None, None, 0, False),
        ("max_timestamp_ms", "int64", (0, 32767), None, None, 0, False),
        ("token_id", "string", (0, 32767), None, None, "", False),
        ("hmac", "bytes", (0, 32767), None, None, b"", False),
        ("throttle_time_ms", "int32", (0, 32767), None, None, 0, False),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        principal_type: str = "",
        principal_name: str = "",
        token_requester_principal_type: str = "",
        token_requester_principal_name: str = "",
        issue_timestamp_ms: int = 0,
        expiry_timestamp_ms: int = 0,
        max_timestamp_ms: int = 0,
        token_id: str = "",
        hmac: Buffer = b"",
        throttle_time_ms: int = 0,
    ) -> None:
        self.error_code = error_code
        self.principal_type = principal_type
        self.principal_name = principal_name
        self.token_requester_principal_type = token_requester_principal_type
        self.token_requester_principal_name = token_requester_principal_name
        self.issue_timestamp_ms = issue_timestamp_ms
        self.expiry_timestamp_ms = expiry_timestamp_ms
        self.max_timestamp_ms = max_timestamp_ms
        self.token_id = token_id
        self.hmac = hmac
        self.throttle_time_ms = throttle_time_ms

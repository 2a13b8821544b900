# Written by tools/generate_messages.py from definitions/41_describe_delegation_token.txt: change the definition, not this file.
"""DescribeDelegationToken, API key 41.

Delegation tokens, by owner.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.wire.message import EMPTY, Message, Request, Structure

if TYPE_CHECKING:
    from ottla.wire.message import Buffer

__all__ = [
    "DescribeDelegationTokenOwner",
    "DescribeDelegationTokenRequest",
    "DescribeDelegationTokenResponse",
    "DescribedDelegationToken",
    "DescribedDelegationTokenRenewer",
]


class DescribeDelegationTokenOwner(Structure):
    """An element of `DescribeDelegationTokenRequest.owners`."""

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


class DescribeDelegationTokenRequest(Request["DescribeDelegationTokenResponse"]):
    """Request, versions 1 to 3, flexible since 2."""

    __slots__ = ("owners",)

    API_KEY = 41
    VERSIONS = (1, 3)
    FLEXIBLE_SINCE = 2
    FIELDS = (("owners", "[DescribeDelegationTokenOwner]", (0, 32767), (0, 32767), None, (), False),)

    def __init__(
        self,
        *,
        owners: list[DescribeDelegationTokenOwner] | None = EMPTY,
    ) -> None:
        self.owners = [] if owners is EMPTY else owners


class DescribedDelegationTokenRenewer(Structure):
    """An element of `DescribedDelegationToken.renewers`."""

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


class DescribedDelegationToken(Structure):
    """An element of `DescribeDelegationTokenResponse.tokens`."""

    __slots__ = (
        "principal_type",
        "principal_name",
        "token_requester_principal_type",
        "token_requester_principal_name",
        "issue_timestamp",
        "expiry_timestamp",
        "max_timestamp",
        "token_id",
        "hmac",
        "renewers",
    )

    FIELDS = (
        ("principal_type", "string", (0, 32767), None, None, "", False),
        ("principal_name", "string", (0, 32767), None, None, "", False),
        ("token_requester_principal_type", "string", (3, 32767), None, None, "", False),
        ("token_requester_principal_name", "string", (3, 32767), None, None, "", False),
        ("issue_timestamp", "int64", (0, 32767), None, None, 0, False),
        ("expiry_timestamp", "int64", (0, 32767), None, None, 0, False),
        ("max_timestamp", "int64", (0, 32767), None, None, 0, False),
        ("token_id", "string", (0, 32767), None, None, "", False),
        ("hmac", "bytes", (0, 32767), None, None, b"", False),
        ("renewers", "[DescribedDelegationTokenRenewer]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        principal_type: str = "",
        principal_name: str = "",
        token_requester_principal_type: str = "",
        token_requester_principal_name: str = "",
        issue_timestamp: int = 0,
        expiry_timestamp: int = 0,
        max_timestamp: int = 0,
        token_id: str = "",
        hmac: Buffer = b"",
        renewers: list[DescribedDelegationTokenRenewer] = EMPTY,
    ) -> None:
        self.principal_type = principal_type
        self.principal_name = principal_name
        self.token_requester_principal_type = token_requester_principal_type
        self.token_requester_principal_name = token_requester_principal_name
        self.issue_timestamp = issue_timestamp
        self.expiry_timestamp = expiry_timestamp
        self.max_timestamp = max_timestamp
        self.token_id = token_id
        self.hmac = hmac
        self.renewers = [] if renewers is EMPTY else renewers


class DescribeDelegationTokenResponse(Message):
    """Response, versions 1 to 3, flexible since 2."""

    __slots__ = ("error_code", "tokens", "throttle_time_ms")

    API_KEY = 41
    VERSIONS = (1, 3)
    FLEXIBLE_SINCE = 2
    FIELDS = (
        ("error_code", "int16", (0, 32767), None, None, 0, False),
        ("tokens", "[DescribedDelegationToken]", (0, 32767), None, None, (), False),
        ("throttle_time_ms", "int32", (0, 32767), None, None, 0, False),
    )

    def __init__(
        self,
        *,
        error_code: int = 0,
        tokens: list[DescribedDelegationToken] = EMPTY,
        throttle_time_ms: int = 0,
    ) -> None:
        self.error_code = error_code
        self.tokens = [] if tokens is EMPTY else tokens
        self.throttle_time_ms = throttle_time_ms

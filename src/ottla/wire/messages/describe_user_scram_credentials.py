# Written by tools/generate_messages.py from definitions/50_describe_user_scram_credentials.txt: change the definition, not this file.
"""DescribeUserScramCredentials, API key 50.

The SCRAM mechanisms of users.
"""

from __future__ import annotations

from ottla.wire.message import EMPTY, Message, Request, Structure

__all__ = [
    "CredentialInfo",
    "DescribeUserScramCredentialsRequest",
    "DescribeUserScramCredentialsResponse",
    "DescribeUserScramCredentialsResult",
    "UserName",
]


class UserName(Structure):
    """An element of `DescribeUserScramCredentialsRequest.users`."""

    __slots__ = ("name",)

    FIELDS = (("name", "string", (0, 32767), None, None, "", False),)

    def __init__(
        self,
        *,
        name: str = "",
    ) -> None:
        self.name = name


class DescribeUserScramCredentialsRequest(Request["DescribeUserScramCredentialsResponse"]):
    """Request, version 0, flexible."""

    __slots__ = ("users",)

    API_KEY = 50
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (("users", "[UserName]", (0, 32767), (0, 32767), None, (), False),)

    def __init__(
        self,
        *,
        users: list[UserName] | None = EMPTY,
    ) -> None:
        self.users = [] if users is EMPTY else users


class CredentialInfo(Structure):
    """An element of `DescribeUserScramCredentialsResult.credential_infos`."""

    __slots__ = ("mechanism", "iterations")

    FIELDS = (
        ("mechanism", "int8", (0, 32767), None, None, 0, False),
        ("iterations", "int32", (0, 32767), None, None, 0, False),
    )

    def __init__(
        self,
        *,
        mechanism: int = 0,
        iterations: int = 0,
    ) -> None:
        self.mechanism = mechanism
        self.iterations = iterations


class DescribeUserScramCredentialsResult(Structure):
    """An element of `DescribeUserScramCredentialsResponse.results`."""

    __slots__ = ("user", "error_code", "error_message", "credential_infos")

    FIELDS = (
        ("user", "string", (0, 32767), None, None, "", False),
        ("error_code", "int16", (0, 32767), None, None, 0, False),
        ("error_message", "string", (0, 32767), (0, 32767), None, "", False),
        ("credential_infos", "[CredentialInfo]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        user: str = "",
        error_code: int = 0,
        error_message: str | None = "",
        credential_infos: list[CredentialInfo] = EMPTY,
    ) -> None:
        self.user = user
        self.error_code = error_code
        self.error_message = error_message
        self.credential_infos = [] if credential_infos is EMPTY else credential_infos


class DescribeUserScramCredentialsResponse(Message):
    """Response, version 0, flexible."""

    __slots__ = ("throttle_time_ms", "error_code", "error_message", "results")

    API_KEY = 50
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("throttle_time_ms", "int32", (0, 32767), None, None, 0, False),
        ("error_code", "int16", (0, 32767), None, None, 0, False),
        ("error_message", "string", (0, 32767), (0, 32767), None, "", False),
        ("results", "[DescribeUserScramCredentialsResult]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        error_code: int = 0,
        error_message: str | None = "",
        results: list[DescribeUserScramCredentialsResult] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.error_code = error_code
        self.error_message = error_message
        self.results = [] if results is EMPTY else results

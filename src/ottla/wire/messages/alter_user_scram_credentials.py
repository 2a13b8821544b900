# Written by tools/generate_messages.py from definitions/51_alter_user_scram_credentials.txt: change the definition, not this file.
"""AlterUserScramCredentials, API key 51.

Sets or removes SCRAM credentials.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.wire.message import EMPTY, Message, Request, Structure

if TYPE_CHECKING:
    from ottla.wire.message import Buffer

__all__ = [
    "AlterUserScramCredentialsRequest",
    "AlterUserScramCredentialsResponse",
    "AlterUserScramCredentialsResult",
    "ScramCredentialDeletion",
    "ScramCredentialUpsertion",
]


class ScramCredentialDeletion(Structure):
    """An element of `AlterUserScramCredentialsRequest.deletions`."""

    __slots__ = ("name", "mechanism")

    FIELDS = (
        ("name", "string", (0, 32767), None, None, "", False),
        ("mechanism", "int8", (0, 32767), None, None, 0, False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        mechanism: int = 0,
    ) -> None:
        self.name = name
        self.mechanism = mechanism


class ScramCredentialUpsertion(Structure):
    """An element of `AlterUserScramCredentialsRequest.upsertions`."""

    __slots__ = ("name", "mechanism", "iterations", "salt", "salted_password")

    FIELDS = (
        ("name", "string", (0, 32767), None, None, "", False),
        ("mechanism", "int8", (0, 32767), None, None, 0, False),
        ("iterations", "int32", (0, 32767), None, None, 0, False),
        ("salt", "bytes", (0, 32767), None, None, b"", False),
        ("salted_password", "bytes", (0, 32767), None, None, b"", False),
    )

    def __init__(
        self,
        *,
        name: str = "",
        mechanism: int = 0,
        iterations: int = 0,
        salt: Buffer = b"",
        salted_password: Buffer = b"",
    ) -> None:
        self.name = name
        self.mechanism = mechanism
        self.iterations = iterations
        self.salt = salt
        self.salted_password = salted_password


class AlterUserScramCredentialsRequest(Request["AlterUserScramCredentialsResponse"]):
    """Request, version 0, flexible."""

    __slots__ = ("deletions", "upsertions")

    API_KEY = 51
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("deletions", "[ScramCredentialDeletion]", (0, 32767), None, None, (), False),
        ("upsertions", "[ScramCredentialUpsertion]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        deletions: list[ScramCredentialDeletion] = EMPTY,
        upsertions: list[ScramCredentialUpsertion] = EMPTY,
    ) -> None:
        self.deletions = [] if deletions is EMPTY else deletions
        self.upsertions = [] if upsertions is EMPTY else upsertions


class AlterUserScramCredentialsResult(Structure):
    """An element of `AlterUserScramCredentialsResponse.results`."""

    __slots__ = ("user", "error_code", "error_message")

    FIELDS = (
        ("user", "string", (0, 32767), None, None, "", False),
        ("error_code", "int16", (0, 32767), None, None, 0, False),
        ("error_message", "string", (0, 32767), (0, 32767), None, "", False),
    )

    def __init__(
        self,
        *,
        user: str = "",
        error_code: int = 0,
        error_message: str | None = "",
    ) -> None:
        self.user = user
        self.error_code = error_code
        self.error_message = error_message


class AlterUserScramCredentialsResponse(Message):
    """Response, version 0, flexible."""

    __slots__ = ("throttle_time_ms", "results")

    API_KEY = 51
    VERSIONS = (0, 0)
    FLEXIBLE_SINCE = 0
    FIELDS = (
        ("throttle_time_ms", "int32", (0, 32767), None, None, 0, False),
        ("results", "[AlterUserScramCredentialsResult]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        results: list[AlterUserScramCredentialsResult] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = [] if results is EMPTY else results

"""Credentials of users for SCRAM (KIP-554). A password is salted and hashed here, and never leaves the client."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import NamedTuple

from ottla.client.cluster import Cluster
from ottla.client.errors import check, error_of
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from ottla.wire.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    UserName,
)

__all__ = ["CredentialChange", "Credentials", "ITERATIONS_MAX", "ITERATIONS_MIN", "ScramMechanism"]

ITERATIONS_MIN, ITERATIONS_MAX = 4096, 16384
SALT_BYTES = 24


class ScramMechanism(IntEnum):
    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def hash_name(self) -> str:
        return "sha256" if self is ScramMechanism.SCRAM_SHA_256 else "sha512"

    def __str__(self) -> str:
        return self.name.replace("_", "-")


class CredentialChange(NamedTuple):
    """A new password, or None to remove the credential."""

    user: str
    mechanism: ScramMechanism
    password: str | None = None
    iterations: int = ITERATIONS_MIN


class Credentials:
    """`admin.credentials`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def describe(self, users: Iterable[str] = ()) -> dict[str, dict[ScramMechanism, int]]:
        """The mechanisms of these users, or of all, with their iterations. Users without credentials are left out."""
        credentials: dict[str, dict[ScramMechanism, int]] = {}
        for user, described in (await self.describe_each(users)).items():
            if not isinstance(described, KafkaError):
                credentials[user] = described
            elif described.code != ErrorCode.RESOURCE_NOT_FOUND:
                raise described
        return credentials

    async def describe_each(self, users: Iterable[str] = ()) -> dict[str, dict[ScramMechanism, int] | KafkaError]:
        """The mechanisms of every user, or its error: RESOURCE_NOT_FOUND for a user without credentials."""
        response: DescribeUserScramCredentialsResponse = await self._cluster.ask_any(
            DescribeUserScramCredentialsRequest(users=[UserName(name=user) for user in users])
        )
        check(response.error_code, response.error_message)
        return {
            result.user: error_of(result.error_code, result.error_message)
            or {ScramMechanism(info.mechanism): info.iterations for info in result.credential_infos}
            for result in response.results
        }

    async def alter(self, changes: Sequence[CredentialChange]) -> dict[str, KafkaError | None]:
        """Sets and removes credentials in one request; the error of every user, or None.

        A request changes a user only once. The cluster refuses two changes of a user with DUPLICATE_RESOURCE.
        """
        request = AlterUserScramCredentialsRequest(
            upsertions=[await _upsertion(change) for change in changes if change.password is not None],
            deletions=[
                ScramCredentialDeletion(name=change.user, mechanism=change.mechanism)
                for change in changes
                if change.password is None
            ],
        )
        response: AlterUserScramCredentialsResponse = await self._cluster.ask_controller(
            request, lambda answer: [result.error_code for result in answer.results]
        )
        return {result.user: error_of(result.error_code, result.error_message) for result in response.results}

    async def set(
        self, user: str, mechanism: ScramMechanism, password: str, *, iterations: int = ITERATIONS_MIN
    ) -> None:
        await self._alter(CredentialChange(user, mechanism, password, iterations))

    async def remove(self, user: str, mechanism: ScramMechanism) -> None:
        await self._alter(CredentialChange(user, mechanism))

    async def _alter(self, change: CredentialChange) -> None:
        for error in (await self.alter([change])).values():
            if error is not None:
                raise error


async def _upsertion(change: CredentialChange) -> ScramCredentialUpsertion:
    """The salted and hashed password: the cluster never sees the password itself."""
    if not ITERATIONS_MIN <= change.iterations <= ITERATIONS_MAX:
        raise ValueError(f"The number of iterations must be from {ITERATIONS_MIN} to {ITERATIONS_MAX}.")
    if not change.password:
        raise ValueError("A password must not be empty.")
    salt = os.urandom(SALT_BYTES)
    salted = await asyncio.to_thread(
        hashlib.pbkdf2_hmac, change.mechanism.hash_name, change.password.encode(), salt, change.iterations
    )
    return ScramCredentialUpsertion(
        name=change.user, mechanism=change.mechanism, iterations=change.iterations, salt=salt, salted_password=salted
    )

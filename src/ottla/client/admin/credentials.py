"""Credentials of users for SCRAM (KIP-554). A password is salted and hashed here, and never leaves the client."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Iterable
from enum import IntEnum

from ottla.client.cluster import Cluster
from ottla.client.errors import check, error_of
from ottla.model.errors import ErrorCode
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

__all__ = ["Credentials", "ITERATIONS_MAX", "ITERATIONS_MIN", "ScramMechanism"]

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


class Credentials:
    """`admin.credentials`."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    async def describe(self, users: Iterable[str] = ()) -> dict[str, dict[ScramMechanism, int]]:
        """The mechanisms of these users, or of all, with their iterations. Users without credentials are left out."""
        response: DescribeUserScramCredentialsResponse = await self._cluster.ask_any(
            DescribeUserScramCredentialsRequest(users=[UserName(name=user) for user in users])
        )
        check(response.error_code, response.error_message)
        found: dict[str, dict[ScramMechanism, int]] = {}
        for result in response.results:
            if result.error_code != ErrorCode.RESOURCE_NOT_FOUND:
                check(result.error_code, result.error_message)
                found[result.user] = {
                    ScramMechanism(info.mechanism): info.iterations for info in result.credential_infos
                }
        return found

    async def set(
        self, user: str, mechanism: ScramMechanism, password: str, *, iterations: int = ITERATIONS_MIN
    ) -> None:
        if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
            raise ValueError(f"The number of iterations must be from {ITERATIONS_MIN} to {ITERATIONS_MAX}.")
        if not password:
            raise ValueError("A password must not be empty.")
        salt = os.urandom(SALT_BYTES)
        salted = await asyncio.to_thread(hashlib.pbkdf2_hmac, mechanism.hash_name, password.encode(), salt, iterations)
        await self._alter(
            AlterUserScramCredentialsRequest(
                upsertions=[
                    ScramCredentialUpsertion(
                        name=user, mechanism=mechanism, iterations=iterations, salt=salt, salted_password=salted
                    )
                ]
            )
        )

    async def remove(self, user: str, mechanism: ScramMechanism) -> None:
        deletion = ScramCredentialDeletion(name=user, mechanism=mechanism)
        await self._alter(AlterUserScramCredentialsRequest(deletions=[deletion]))

    async def _alter(self, request: AlterUserScramCredentialsRequest) -> None:
        response: AlterUserScramCredentialsResponse = await self._cluster.ask_controller(
            request, lambda answer: [result.error_code for result in answer.results]
        )
        for result in response.results:
            if (error := error_of(result.error_code, result.error_message)) is not None:
                raise error

"""SCRAM credentials as kafka-configs writes them: `SCRAM-SHA-256=[iterations=8192,password=...]`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from ottla.client.admin.configs import ConfigChange
from ottla.client.admin.credentials import ITERATIONS_MIN, ScramMechanism
from ottla.client.admin.quotas import QuotaComponent, QuotaMatch

__all__ = ["CredentialChange", "credential_changes", "is_credential", "user_of"]

_MECHANISMS = {str(mechanism): mechanism for mechanism in ScramMechanism}
# A password may contain a comma, so it comes last.
_SPECIFICATION = re.compile(r"(?:iterations=(?P<iterations>\d+),)?password=(?P<password>.+)", re.DOTALL)


class CredentialChange(NamedTuple):
    mechanism: ScramMechanism
    # None removes the credential.
    password: str | None
    iterations: int = ITERATIONS_MIN

    def __repr__(self) -> str:
        return f"CredentialChange({self.mechanism})"


def is_credential(name: str) -> bool:
    return name in _MECHANISMS


def credential_changes(changes: Sequence[ConfigChange]) -> list[CredentialChange]:
    wanted = []
    for change in changes:
        if not is_credential(change.name):
            raise ValueError("Credentials are changed alone, without quotas.")
        mechanism = _MECHANISMS[change.name]
        if change.value is None:
            wanted.append(CredentialChange(mechanism, None))
            continue
        match = _SPECIFICATION.fullmatch(change.value.strip().removeprefix("[").removesuffix("]"))
        if match is None:
            # The message omits the value, because it may contain a password.
            raise ValueError(f"{mechanism} is written as [password=...] or [iterations=N,password=...].")
        iterations = int(match["iterations"] or ITERATIONS_MIN)
        wanted.append(CredentialChange(mechanism, match["password"], iterations))
    return wanted


def user_of(components: Sequence[QuotaComponent]) -> str:
    """The one user to change."""
    if len(components) != 1 or components[0].kind != "user" or components[0].match is not QuotaMatch.EXACT:
        raise ValueError("Credentials belong to a user: name exactly one user and no other entity.")
    assert components[0].name is not None
    return components[0].name

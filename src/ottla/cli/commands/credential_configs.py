"""`ottla configs` for the SCRAM credentials of users."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ottla.cli.logic.credential_words import credential_changes, user_of
from ottla.cli.session import Session
from ottla.client.admin import AdminClient
from ottla.client.admin.configs import ConfigChange
from ottla.client.admin.quotas import QuotaComponent, QuotaMatch

__all__ = ["alter_credentials", "describe_credentials"]


async def describe_credentials(
    session: Session, admin: AdminClient, components: Sequence[QuotaComponent]
) -> list[dict[str, Any]]:
    """Shows the credentials of one user or of all; does nothing if the options name more than users."""
    if [component.kind for component in components] != ["user"] or components[0].match is QuotaMatch.DEFAULT:
        return []
    credentials = await admin.credentials.describe([] if components[0].name is None else [components[0].name])
    if credentials:
        session.output.table(
            ("USER", "CREDENTIAL", "ITERATIONS"),
            [
                (user, mechanism, count)
                for user, mechanisms in sorted(credentials.items())
                for mechanism, count in mechanisms.items()
            ],
        )
    return [
        {"entity": {"user": user}, "credentials": {str(mechanism): count for mechanism, count in mechanisms.items()}}
        for user, mechanisms in sorted(credentials.items())
    ]


def alter_credentials(session: Session, components: Sequence[QuotaComponent], changes: Sequence[ConfigChange]) -> int:
    user, wanted = user_of(components), credential_changes(changes)

    async def work(admin: AdminClient) -> None:
        # One request per change: a request may change a user's credentials only once.
        for change in wanted:
            if change.password is None:
                await admin.credentials.remove(user, change.mechanism)
            else:
                await admin.credentials.set(user, change.mechanism, change.password, iterations=change.iterations)
            session.output.say(f"{'Removed' if change.password is None else 'Set'} {change.mechanism} of user {user}.")
        session.output.emit([{"user": user}])

    return session.run(work)

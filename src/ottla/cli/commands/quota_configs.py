"""`ottla configs` for users, clients and ips: their settings are quotas, which have requests of their own.

Users also have credentials, which are shown with the quotas and changed in `credential_configs`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ottla.cli.commands.credential_configs import alter_credentials, describe_credentials
from ottla.cli.failures import Failure
from ottla.cli.logic.credential_words import is_credential
from ottla.cli.logic.quota_entities import entity_of, in_words, quota_changes
from ottla.cli.session import Session
from ottla.client.admin import AdminClient
from ottla.client.admin.configs import ConfigChange
from ottla.client.admin.quotas import QuotaComponent

__all__ = ["alter_quotas", "describe_quotas"]


def describe_quotas(session: Session, components: Sequence[QuotaComponent]) -> int:
    async def work(admin: AdminClient) -> None:
        described = await admin.quotas.describe(components, strict=True)
        for entity, quotas in sorted(described.items(), key=lambda item: in_words(item[0])):
            session.output.say(in_words(entity))
            session.output.table(("QUOTA", "VALUE"), [(key, _number(value)) for key, value in sorted(quotas.items())])
        credentials = await describe_credentials(session, admin, components)
        if not described and not credentials:
            session.output.say_none("There are no such quotas.")
        entries = [{"entity": dict(entity), "quotas": quotas} for entity, quotas in described.items()]
        session.output.emit([*entries, *credentials])

    return session.run(work)


def alter_quotas(
    session: Session, components: Sequence[QuotaComponent], changes: Sequence[ConfigChange], *, validate_only: bool
) -> int:
    if any(is_credential(change.name) for change in changes):
        if validate_only:
            raise Failure("Credentials cannot be checked without changing them.")
        return alter_credentials(session, components, changes)
    entity, wanted = entity_of(components), quota_changes(changes)

    async def work(admin: AdminClient) -> None:
        now = (await admin.quotas.describe(components, strict=True)).get(entity, {})
        if missing := [key for key, value in wanted.items() if value is None and key not in now]:
            raise Failure(f"{', '.join(missing)} cannot be removed from {in_words(entity)}: it is not set.")
        altered = []
        for changed, error in (await admin.quotas.alter({entity: wanted}, validate_only=validate_only)).items():
            if error is None:
                altered.append(dict(changed))
                session.output.say(f"{'Could change' if validate_only else 'Changed'} {in_words(changed)}.")
            else:
                session.output.complain(in_words(changed), error)
        session.output.emit(altered)

    return session.run(work)


def _number(value: float) -> str:
    return str(int(value)) if value.is_integer() else str(value)

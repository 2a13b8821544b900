"""Rights, quotas and users of a cluster, for another cluster.

Passwords cannot be copied: a cluster lists the users with SCRAM credentials, but never the credentials.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ottla.client.admin.acls import Acls
from ottla.client.admin.credentials import Credentials
from ottla.client.admin.quotas import Quotas
from ottla.client.cluster import Cluster
from ottla.model.errors import ErrorCode, KafkaError

__all__ = ["CopiedRights", "copy_rights"]

_REFUSED = (ErrorCode.CLUSTER_AUTHORIZATION_FAILED, ErrorCode.UNSUPPORTED_VERSION)


@dataclass(slots=True)
class CopiedRights:
    acls: int = 0
    quotas: int = 0
    users_without_password: list[str] = field(default_factory=list)
    """Users of the source with SCRAM credentials that the target does not have."""
    not_copied: list[str] = field(default_factory=list)
    """Sentences about what could not be read or written."""


async def copy_rights(source: Cluster, target: Cluster, *, dry_run: bool) -> CopiedRights:
    """Copies the ACLs and quotas that the target lacks. With `dry_run` it only counts them."""
    done = CopiedRights()
    await _copy_acls(source, target, done, dry_run=dry_run)
    await _copy_quotas(source, target, done, dry_run=dry_run)
    await _find_users(source, target, done)
    return done


async def _copy_acls(source: Cluster, target: Cluster, done: CopiedRights, *, dry_run: bool) -> None:
    try:
        wanted = await Acls(source).describe()
    except KafkaError as error:
        if error.code is not ErrorCode.SECURITY_DISABLED:
            done.not_copied.append(f"ACLs cannot be read at the source: {error}.")
        return
    if not wanted:
        return
    try:
        present = set(await Acls(target).describe())
        missing = [acl for acl in wanted if acl not in present]
        done.acls = len(missing)
        results = await Acls(target).create_each(missing) if missing and not dry_run else {}
    except KafkaError as error:
        done.acls = 0
        reason = "has no authorizer" if error.code is ErrorCode.SECURITY_DISABLED else f"refuses them: {error}"
        done.not_copied.append(f"{len(wanted)} ACLs are not copied: the target {reason}.")
        return
    for acl, refusal in results.items():
        if refusal is not None:
            done.acls -= 1
            done.not_copied.append(f"The ACL of {acl.principal} on {acl.resource_name} is not copied: {refusal}.")


async def _copy_quotas(source: Cluster, target: Cluster, done: CopiedRights, *, dry_run: bool) -> None:
    try:
        wanted = await Quotas(source).describe()
        present = await Quotas(target).describe() if wanted else {}
    except KafkaError as error:
        done.not_copied.append(f"Quotas cannot be read: {error}.")
        return
    missing = {
        entity: {key: value for key, value in quotas.items() if present.get(entity, {}).get(key) != value}
        for entity, quotas in wanted.items()
    }
    changes = {entity: quotas for entity, quotas in missing.items() if quotas}
    done.quotas = len(changes)
    if changes and not dry_run:
        for entity, refusal in (await Quotas(target).alter({**changes})).items():
            if refusal is not None:
                done.quotas -= 1
                name = ", ".join(f"{kind} {entity_name or 'default'}" for kind, entity_name in entity)
                done.not_copied.append(f"The quotas of {name} are not copied: {refusal}.")


async def _find_users(source: Cluster, target: Cluster, done: CopiedRights) -> None:
    try:
        users = await Credentials(source).describe()
        known = await Credentials(target).describe() if users else {}
    except KafkaError as error:
        if error.code not in _REFUSED:
            raise
        done.not_copied.append(f"SCRAM users cannot be listed: {error}.")
        return
    done.users_without_password = sorted(
        f"{user} ({mechanism.name.replace('_', '-')})"
        for user, mechanisms in users.items()
        for mechanism in mechanisms
        if mechanism not in known.get(user, {})
    )

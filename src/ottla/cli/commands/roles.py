"""`ottla roles`: named sets of access rules, bound to principals and kept as plain ACLs."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

from ottla.cli.commands.acls import resource_options, rule_options, show_acls
from ottla.cli.failures import Failure
from ottla.cli.logic.acl_words import Access, Resource, Subjects, rules
from ottla.cli.logic.role_plan import Role, check_principals, plan, selection
from ottla.cli.logic.role_store import read_roles, write_role
from ottla.cli.session import Session, cluster_options, confirm, yes_option
from ottla.cli.verbs import VerbGroup
from ottla.client.admin import AdminClient
from ottla.model.access import PatternType

__all__ = ["roles"]

# The type of the principals that stand for groups.
GROUP = "Group"


def _member_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--principal and --group, together as `members`."""

    @click.option("--principal", "principals", multiple=True, metavar="User:NAME", help="May be repeated.")
    @click.option(
        "--group", "groups", multiple=True, metavar="NAME", help="Of certificates or tokens. May be repeated."
    )
    @functools.wraps(command)
    def with_members(*arguments: Any, principals: tuple[str, ...], groups: tuple[str, ...], **options: Any) -> Any:
        members = _checked((*principals, *(f"{GROUP}:{name}" for name in groups)))
        if not members:
            raise click.UsageError("Missing member: add --principal User:NAME or --group NAME.")
        return command(*arguments, members=members, **options)

    return with_members


@click.group(cls=VerbGroup, default="list", help="Name sets of access rules, and bind them to principals.")
def roles() -> None:
    """The verbs are below."""


@roles.command("list", help="List roles with the number of their rules, and their principals.")
@cluster_options
def list_roles(session: Session) -> int:
    async def work(admin: AdminClient) -> None:
        known = await read_roles(admin, session.settings)
        session.output.table(
            ("ROLE", "RULES", "PRINCIPALS"),
            [(role.name, len(role.rules), ",".join(role.members) or "-") for role in known.values()],
            fold=(2,),
            none="There are no roles; 'ottla roles create' makes one.",
        )
        session.output.emit(
            [{"name": role.name, "rules": len(role.rules), "members": list(role.members)} for role in known.values()]
        )

    return session.run(work)


@roles.command("show", help="Show the ACLs of a role; only its rules if no principal is bound to it.")
@click.argument("name")
@cluster_options
def show(session: Session, name: str) -> int:
    async def work(admin: AdminClient) -> None:
        role = _find(await read_roles(admin, session.settings), name)
        show_acls(session, sorted(role.acls() if role.members else role.rules))

    return session.run(work)


@roles.command("create", help="Create a role, or give it other rules (--replace).")
@click.argument("name")
@click.option("--replace", is_flag=True, help="The rules of a role that exists; its principals stay.")
@rule_options(with_subjects=False)
@resource_options("literal")
@cluster_options
def create(
    session: Session,
    name: str,
    replace: bool,
    resources: list[Resource],
    pattern: PatternType,
    access: Access,
) -> int:
    try:
        role_rules = rules(resources, pattern, access, Subjects(allowed=("",)))
    except ValueError as error:
        raise click.UsageError(str(error)) from None

    def change(known: dict[str, Role]) -> Role:
        before = known.get(name)
        if before is not None and not replace:
            raise Failure(f"The role {name!r} exists. --replace gives it other rules.")
        return Role(name, tuple(role_rules), () if before is None else before.members)

    return _change(session, name, change)


@roles.command("delete", help="Delete a role, and the ACLs that it gave.")
@click.argument("name")
@yes_option
@cluster_options
def delete(session: Session, name: str, yes: bool) -> int:
    def change(known: dict[str, Role]) -> None:
        role = _find(known, name)
        confirm(f"Delete the role {name} and the rights of {len(role.members)} principals?", yes=yes)

    return _change(session, name, change)


@roles.command("bind", help="Give a role to principals, or to groups that certificates or tokens name.")
@click.argument("name")
@_member_options
@cluster_options
def bind(session: Session, name: str, members: tuple[str, ...]) -> int:
    def change(known: dict[str, Role]) -> Role:
        role = _find(known, name)
        return role._replace(members=tuple(dict.fromkeys((*role.members, *members))))

    return _change(session, name, change)


@roles.command("unbind", help="Remove a role from principals or groups, with the ACLs that it gave them.")
@click.argument("name")
@_member_options
@cluster_options
def unbind(session: Session, name: str, members: tuple[str, ...]) -> int:
    def change(known: dict[str, Role]) -> Role:
        role = _find(known, name)
        strangers = [principal for principal in members if principal not in role.members]
        if strangers:
            raise Failure(f"The role {name!r} is not bound to {', '.join(strangers)}.")
        return role._replace(members=tuple(member for member in role.members if member not in members))

    return _change(session, name, change)


@roles.command("apply", help="Create the missing ACLs of all roles.")
@cluster_options
def apply(session: Session) -> int:
    async def work(admin: AdminClient) -> None:
        known = await read_roles(admin, session.settings)
        planned = plan(known, known, await admin.acls.describe())
        if planned.created:
            await admin.acls.create(planned.created)
        show_acls(session, planned.created, nothing="Every role has its ACLs.")

    return session.run(work)


# -- the topic -----------------------------------------------------------------------------------------------------


def _change(session: Session, name: str, change: Callable[[dict[str, Role]], Role | None]) -> int:
    """Writes the role that `change` returns, or deletes it if that is None, and updates the ACLs.

    New ACLs are created before the role is written, and old ACLs are deleted after it, so that a command that failed
    halfway can be repeated.
    """

    async def work(admin: AdminClient) -> None:
        before = await read_roles(admin, session.settings)
        role = change(before)
        after = {role_name: kept_role for role_name, kept_role in before.items() if role_name != name}
        if role is not None:
            after[name] = role
        planned = plan(before, after, await admin.acls.describe())
        if planned.created:
            await admin.acls.create(planned.created)
        await write_role(admin, session.settings, name, role)
        if planned.deleted:
            await admin.acls.delete([selection(acl) for acl in planned.deleted])
        for word, acls in (("added", planned.created), ("removed", planned.deleted)):
            if acls:
                session.output.say(f"{len(acls)} ACLs {word}.")
        session.output.emit({"role": name, "added": len(planned.created), "removed": len(planned.deleted)})

    return session.run(work)


def _find(known: dict[str, Role], name: str) -> Role:
    role = known.get(name)
    if role is None:
        raise Failure(f"There is no role {name!r}. 'ottla roles list' shows all roles.")
    return role


def _checked(principals: Any) -> tuple[str, ...]:
    try:
        return check_principals(principals)
    except ValueError as error:
        raise click.UsageError(str(error)) from None

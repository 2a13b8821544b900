"""`ottla acls`: who may do what."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import click

from ottla.cli.logic.acl_words import Access, Resource, Subjects, operation_of, pattern_of, rules, selections, shown
from ottla.cli.session import Session, confirm, controller_options, yes_option
from ottla.cli.verbs import VerbGroup
from ottla.client.admin import AdminClient
from ottla.client.admin.acls import Acl, AclSelection
from ottla.model.access import CLUSTER_NAME, PatternType, ResourceType

__all__ = ["acls", "resource_options", "rule_options", "show_acls"]

_PATTERNS = click.Choice(["any", "match", "literal", "prefixed"], case_sensitive=False)


@click.group(cls=VerbGroup, default="list", help="List, add and remove access rules (kafka-acls).")
def acls() -> None:
    """The verbs are below."""


def resource_options(pattern: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Options that become one argument, `resources`, and the pattern type with this default."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @click.option("--topic", "topics", multiple=True, metavar="NAME", help="May be repeated; '*' is every topic.")
        @click.option("--group", "groups", multiple=True, metavar="NAME", help="A consumer group.")
        @click.option("--transactional-id", "transactional_ids", multiple=True, metavar="ID", help="A producer's.")
        @click.option("--delegation-token", "tokens", multiple=True, metavar="ID", help="A delegation token.")
        @click.option("--user-principal", "users", multiple=True, metavar="User:NAME", help="A user, for tokens.")
        @click.option("--cluster", "is_cluster", is_flag=True, help="The cluster itself.")
        @click.option(
            "--resource-pattern-type",
            "pattern",
            type=_PATTERNS,
            default=pattern,
            show_default=True,
            metavar="TYPE",
            help="How names are compared: literal or prefixed; any and match for lists and removals.",
        )
        @functools.wraps(function)
        def wrapper(
            *,
            topics: Sequence[str],
            groups: Sequence[str],
            transactional_ids: Sequence[str],
            tokens: Sequence[str],
            users: Sequence[str],
            is_cluster: bool,
            pattern: str,
            **options: Any,
        ) -> Any:
            resources = [
                *[Resource(ResourceType.TOPIC, name) for name in topics],
                *[Resource(ResourceType.GROUP, name) for name in groups],
                *[Resource(ResourceType.TRANSACTIONAL_ID, name) for name in transactional_ids],
                *[Resource(ResourceType.DELEGATION_TOKEN, name) for name in tokens],
                *[Resource(ResourceType.USER, name) for name in users],
                *([Resource(ResourceType.CLUSTER, CLUSTER_NAME)] if is_cluster else []),
            ]
            return function(resources=resources, pattern=pattern_of(pattern), **options)

        return wrapper

    return decorate


def rule_options(*, with_subjects: bool) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Options that become the argument `access`, and with subjects also `subjects`."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @click.option(
            "--operation", "operations", multiple=True, metavar="NAME", help="Read, Write, ...; default: All."
        )
        @click.option("--producer", is_flag=True, help="All that a producer needs.")
        @click.option("--consumer", is_flag=True, help="All that a consumer needs.")
        @click.option("--idempotent", is_flag=True, help="With --producer: also idempotent writes on old brokers.")
        @functools.wraps(function)
        def wrapper(
            *, operations: tuple[str, ...], producer: bool, consumer: bool, idempotent: bool, **options: Any
        ) -> Any:
            try:
                wanted = tuple(operation_of(text) for text in operations)
            except ValueError as error:
                raise click.UsageError(str(error)) from None
            access = Access(wanted, producer=producer, consumer=consumer, idempotent=idempotent)
            return function(access=access, **options)

        return _subject_options(wrapper) if with_subjects else wrapper

    return decorate


def _subject_options(function: Callable[..., Any]) -> Callable[..., Any]:
    @click.option("--allow-principal", "allowed", multiple=True, metavar="User:NAME", help="May be repeated.")
    @click.option("--deny-principal", "denied", multiple=True, metavar="User:NAME", help="May be repeated.")
    @click.option("--allow-host", "allowed_hosts", multiple=True, metavar="ADDRESS", help="Default: every host.")
    @click.option("--deny-host", "denied_hosts", multiple=True, metavar="ADDRESS", help="Default: every host.")
    @functools.wraps(function)
    def wrapper(
        *,
        allowed: tuple[str, ...],
        denied: tuple[str, ...],
        allowed_hosts: tuple[str, ...],
        denied_hosts: tuple[str, ...],
        **options: Any,
    ) -> Any:
        return function(subjects=Subjects(allowed, denied, allowed_hosts, denied_hosts), **options)

    return wrapper


@acls.command("list", help="List rules, of resources or of principals.")
@click.option("--principal", "principals", multiple=True, metavar="User:NAME", help="Only rules for these.")
@resource_options("any")
@controller_options
def list_acls(session: Session, resources: list[Resource], pattern: PatternType, principals: tuple[str, ...]) -> int:
    wanted = [AclSelection(resource.type, resource.name, pattern) for resource in resources] or [
        AclSelection(pattern_type=pattern)
    ]

    async def work(admin: AdminClient) -> None:
        matches: set[Acl] = set()
        for selection in wanted:
            matches.update(await admin.acls.describe(selection))
        show_acls(session, sorted(acl for acl in matches if not principals or acl.principal in principals))

    return session.run(work)


@acls.command("add", help="Add rules. Rules that exist stay as they are.")
@rule_options(with_subjects=True)
@resource_options("literal")
@controller_options
def add(session: Session, resources: list[Resource], pattern: PatternType, access: Access, subjects: Subjects) -> int:
    wanted = _parsed(rules, resources, pattern, access, subjects)

    async def work(admin: AdminClient) -> None:
        await admin.acls.create(wanted)
        show_acls(session, wanted)

    return session.run(work)


@acls.command("remove", help="Remove rules: the named ones, or all of a resource.")
@rule_options(with_subjects=True)
@resource_options("literal")
@yes_option
@click.option("--force", is_flag=True, help="Kafka's name for --yes.")
@controller_options
def remove(
    session: Session,
    resources: list[Resource],
    pattern: PatternType,
    access: Access,
    subjects: Subjects,
    yes: bool,
    force: bool,
) -> int:
    wanted = _parsed(selections, resources, pattern, access, subjects)
    if not wanted:
        raise click.UsageError("Name the resources whose rules are to be removed, for example with --topic.")

    async def work(admin: AdminClient) -> None:
        confirm("Remove these access rules?", yes=yes or force)
        show_acls(session, await admin.acls.delete(wanted), nothing="No rule matches; nothing was removed.")

    return session.run(work)


def _parsed(make: Callable[..., list[Any]], *arguments: Any) -> list[Any]:
    try:
        return make(*arguments)
    except ValueError as error:
        raise click.UsageError(str(error)) from None


def show_acls(session: Session, bindings: Sequence[Acl], *, nothing: str = "There are no such rules.") -> None:
    if not bindings:
        session.output.say(nothing)
    else:
        session.output.table(
            ("RESOURCE", "NAME", "PATTERN", "PRINCIPAL", "HOST", "OPERATION", "PERMISSION"),
            [
                (
                    shown(acl.resource_type),
                    acl.resource_name,
                    shown(acl.pattern_type),
                    acl.principal,
                    acl.host,
                    shown(acl.operation),
                    shown(acl.permission),
                )
                for acl in bindings
            ],
        )
    session.output.emit(
        [
            {
                "resourceType": acl.resource_type.name,
                "name": acl.resource_name,
                "patternType": acl.pattern_type.name,
                "principal": acl.principal,
                "host": acl.host,
                "operation": acl.operation.name,
                "permissionType": acl.permission.name,
            }
            for acl in bindings
        ]
    )

"""Rights and limits: access rules, users of SCRAM, quotas."""

from __future__ import annotations

from enum import IntEnum
from typing import Any, TypeVar

from ottla.client.admin.acls import Acl, AclSelection
from ottla.client.admin.credentials import ITERATIONS_MIN, CredentialChange, ScramMechanism
from ottla.client.admin.quotas import QuotaEntity
from ottla.console.answers import ApiError, PageRequest, invalid, page_of
from ottla.console.call import Call, Need, Route
from ottla.console.change import Change, command_line
from ottla.console.words import raise_first
from ottla.model.access import Operation, PatternType, Permission, ResourceType

__all__ = ["ACCESS_ROUTES", "acl_json", "acl_sentence"]

E = TypeVar("E", bound=IntEnum)

_RESOURCE_OPTIONS = {
    ResourceType.TOPIC: "--topic",
    ResourceType.GROUP: "--group",
    ResourceType.TRANSACTIONAL_ID: "--transactional-id",
    ResourceType.DELEGATION_TOKEN: "--delegation-token",
    ResourceType.USER: "--user-principal",
}
_QUOTA_OPTIONS = {"user": "--user", "client-id": "--client", "ip": "--ip"}
_ACL_FIELDS = ("principal", "host", "operation", "permission", "resource_type", "resource_name", "pattern_type")


def acl_json(acl: Acl) -> dict[str, Any]:
    return {
        "principal": acl.principal,
        "host": acl.host,
        "operation": acl.operation.name,
        "permission": acl.permission.name,
        "resource_type": acl.resource_type.name,
        "resource_name": acl.resource_name,
        "pattern_type": acl.pattern_type.name,
    }


def acl_sentence(acl: Acl, *, verb: str = "may") -> str:
    may = verb if acl.permission is Permission.ALLOW else f"{verb} not"
    every = "every" if acl.resource_name == "*" else acl.resource_name
    begins = " whose name begins with" if acl.pattern_type is PatternType.PREFIXED else ""
    host = "" if acl.host == "*" else f" from {acl.host}"
    kind = acl.resource_type.name.lower().replace("_", " ")
    return f"{acl.principal} {may} {acl.operation.name.lower().replace('_', ' ')} {kind}{begins} {every}{host}"


async def _acls(call: Call) -> dict[str, Any]:
    query = call.query
    page = PageRequest.of(query, sort="principal", sortable=_ACL_FIELDS)
    rows = [
        item
        for item in map(acl_json, await call.admin.acls.describe())
        if page.matches(f"{item['principal']} {item['resource_name']}")
        and all(query.get(name, "").casefold() in ("", item[name].casefold()) for name in _ACL_FIELDS)
    ]
    shown = page.cut(rows, lambda item: (item[page.sort], *item.values()))
    return page_of(shown, len(rows), page)


def _named(kind: type[E], value: str, field: str) -> E:
    try:
        return kind[value.upper()]
    except KeyError:
        names = ", ".join(member.name for member in kind if member.name not in ("UNKNOWN", "ANY", "MATCH"))
        raise invalid(f"{field}={value!r}: it is one of {names}.") from None


def _acl(call: Call) -> Acl:
    principal = call.text("principal")
    if ":" not in principal:
        raise invalid(f"{principal!r} is no principal: write User:alice.")
    return Acl(
        resource_type=_named(ResourceType, call.text("resource_type"), "resource_type"),
        resource_name=call.text("resource_name"),
        principal=principal,
        operation=_named(Operation, call.text("operation"), "operation"),
        permission=_named(Permission, call.text("permission", "ALLOW"), "permission"),
        host=call.text("host", "*"),
        pattern_type=_named(PatternType, call.text("pattern_type", "LITERAL"), "pattern_type"),
    )


def _acl_options(acl: Acl) -> list[tuple[str, object]]:
    word = "allow" if acl.permission is Permission.ALLOW else "deny"
    options: list[tuple[str, object]] = [(f"--{word}-principal", acl.principal)]
    if acl.host != "*":
        options.append((f"--{word}-host", acl.host))
    options.append(("--operation", acl.operation.name.title().replace("_", "")))
    if acl.resource_type is ResourceType.CLUSTER:
        options.append(("--cluster", True))
    else:
        options.append((_RESOURCE_OPTIONS.get(acl.resource_type, "--topic"), acl.resource_name))
    if acl.pattern_type is not PatternType.LITERAL:
        options.append(("--resource-pattern-type", acl.pattern_type.name.lower()))
    return options


async def _add_acl(call: Call) -> Change:
    acl = _acl(call)

    async def apply() -> dict[str, Any]:
        await call.admin.acls.create([acl])
        return acl_json(acl)

    is_wide = acl.permission is Permission.ALLOW and acl.resource_name == "*"
    return Change(
        plan=[f"From now on, {acl_sentence(acl)}."],
        command=command_line("acls", "add", options=_acl_options(acl)),
        apply=apply,
        warnings=["The rule is about every resource of its type."] if is_wide else [],
    )


async def _remove_acl(call: Call) -> Change:
    acl = _acl(call)
    selection = AclSelection(
        resource_type=acl.resource_type,
        resource_name=acl.resource_name,
        pattern_type=acl.pattern_type,
        principal=acl.principal,
        host=acl.host,
        operation=acl.operation,
        permission=acl.permission,
    )
    if acl not in await call.admin.acls.describe(selection):
        raise ApiError(404, "NOT_FOUND", "There is no such rule.")

    async def apply() -> dict[str, Any]:
        return {"removed": len(await call.admin.acls.delete([selection]))}

    return Change(
        plan=[f"Removes the rule that {acl_sentence(acl)}."],
        command=command_line("acls", "remove", options=[*_acl_options(acl), ("--yes", True)]),
        apply=apply,
    )


async def _users(call: Call) -> dict[str, Any]:
    page = PageRequest.of(call.query)
    known = await call.admin.credentials.describe()
    names = [name for name in known if page.matches(name)]
    items = [
        {
            "name": name,
            "mechanisms": [
                {"mechanism": str(mechanism), "iterations": iterations}
                for mechanism, iterations in sorted(known[name].items())
            ],
        }
        for name in page.cut(names, lambda name: name)
    ]
    return page_of(items, len(names), page)


def _mechanism(text: str) -> ScramMechanism:
    return _named(ScramMechanism, text.replace("-", "_"), "mechanism")


async def _set_user(call: Call) -> Change:
    name, password = call.text("name"), call.text("password")
    mechanism = _mechanism(call.text("mechanism", "SCRAM-SHA-512"))
    iterations = call.whole("iterations", ITERATIONS_MIN)
    is_known = mechanism in (await call.admin.credentials.describe()).get(name, {})

    async def apply() -> dict[str, Any]:
        await call.admin.credentials.set(name, mechanism, password, iterations=iterations)
        return {"name": name}

    action = f"Changes the password of user {name}" if is_known else f"Creates user {name}"
    return Change(
        plan=[f"{action} for {mechanism} with {iterations} iterations."],
        # The password stays out of the history of a shell.
        command=command_line(
            "configs",
            "alter",
            options=[("--user", name), ("--set", f"{mechanism}=[iterations={iterations},password=...]")],
        ),
        apply=apply,
        warnings=["Clients with the old password fail at their next login."] if is_known else [],
    )


async def _remove_user(call: Call) -> Change:
    name = call.part("name")
    known = (await call.admin.credentials.describe()).get(name, {})
    requested = call.body.get("mechanism")
    mechanisms = [_mechanism(str(requested))] if requested else sorted(known)
    if not known or any(mechanism not in known for mechanism in mechanisms):
        raise ApiError(404, "RESOURCE_NOT_FOUND", f"User {name} has no such credential.")

    async def apply() -> dict[str, Any]:
        for mechanism in mechanisms:
            raise_first((await call.admin.credentials.alter([CredentialChange(name, mechanism)])).values())
        return {"removed": [str(mechanism) for mechanism in mechanisms]}

    return Change(
        plan=[f"Removes the password of user {name} for {mechanism}." for mechanism in mechanisms],
        command=command_line(
            "configs", "alter", options=[("--user", name), *[("--unset", str(mechanism)) for mechanism in mechanisms]]
        ),
        apply=apply,
        warnings=["The user cannot log in any more."],
    )


async def _quotas(call: Call) -> dict[str, Any]:
    page = PageRequest.of(call.query, sort="entity", sortable=("entity",))
    described = await call.admin.quotas.describe()
    rows = [entity for entity in described if page.matches(_entity_words(entity))]
    shown = page.cut(rows, _entity_words)
    return page_of([{"entity": dict(entity), "quotas": described[entity]} for entity in shown], len(rows), page)


def _entity_words(entity: QuotaEntity) -> str:
    return ", ".join(f"{kind} {name if name is not None else '<default>'}" for kind, name in entity)


async def _set_quotas(call: Call) -> Change:
    entity_fields = call.body.get("entity")
    if (
        not isinstance(entity_fields, dict)
        or not entity_fields
        or any(kind not in _QUOTA_OPTIONS for kind in entity_fields)
    ):
        raise invalid(f"The body needs 'entity', an object with {', '.join(_QUOTA_OPTIONS)}.")
    entity: QuotaEntity = tuple(
        sorted((str(kind), None if name is None else str(name)) for kind, name in entity_fields.items())
    )
    quotas = call.body.get("set") or {}
    if not isinstance(quotas, dict) or any(
        isinstance(quota, bool) or not isinstance(quota, int | float) for quota in quotas.values()
    ):
        raise invalid("'set' must be an object with numbers as values.")
    changes: dict[str, float | None] = {**{key: float(value) for key, value in quotas.items()}}
    changes |= dict.fromkeys(call.names("unset"), None)
    if not changes:
        raise invalid("The body needs 'set' or 'unset'.")

    async def alter(*, validate_only: bool) -> dict[str, Any]:
        raise_first((await call.admin.quotas.alter({entity: changes}, validate_only=validate_only)).values())
        return {"entity": dict(entity)}

    options: list[tuple[str, object]] = [
        (_QUOTA_OPTIONS[kind], name) if name is not None else (f"{_QUOTA_OPTIONS[kind]}-defaults", True)
        for kind, name in entity
    ]
    options += [("--set", f"{key}={value:g}") for key, value in changes.items() if value is not None]
    options += [("--unset", key) for key, value in changes.items() if value is None]
    words = _entity_words(entity)
    return Change(
        plan=[
            f"Removes {key} of {words}." if value is None else f"Sets {key} of {words} to {value:g}."
            for key, value in changes.items()
        ],
        command=command_line("configs", "alter", options=options),
        apply=lambda: alter(validate_only=False),
        validate=lambda: alter(validate_only=True),
    )


ACCESS_ROUTES = (
    Route("GET", "/api/acls", _acls),
    Route("POST", "/api/acls", _add_acl, Need.WRITE),
    Route("DELETE", "/api/acls", _remove_acl, Need.WRITE),
    Route("GET", "/api/users", _users),
    Route("POST", "/api/users", _set_user, Need.WRITE),
    Route("DELETE", "/api/users/{name}", _remove_user, Need.WRITE),
    Route("GET", "/api/quotas", _quotas),
    Route("PUT", "/api/quotas", _set_quotas, Need.WRITE),
)

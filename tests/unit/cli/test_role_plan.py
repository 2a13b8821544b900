"""Which ACLs a change of roles creates and deletes."""

from __future__ import annotations

import pytest

from ottla.cli.logic.role_plan import Role, check_principals, plan, read_role, written
from ottla.client.admin.acls import Acl
from ottla.model.access import Operation, PatternType, ResourceType

READ = Acl(ResourceType.TOPIC, "orders", "", Operation.READ)
WRITE = Acl(ResourceType.TOPIC, "ord", "", Operation.WRITE, pattern_type=PatternType.PREFIXED)


def of(rule: Acl, user: str) -> Acl:
    return rule._replace(principal=f"User:{user}")


def role(name: str, *members: str, rules: tuple[Acl, ...] = (READ,)) -> dict[str, Role]:
    return {name: Role(name, rules, tuple(f"User:{member}" for member in members))}


def test_binding_creates_an_acl_for_each_rule_and_member() -> None:
    planned = plan(role("r", rules=(READ, WRITE)), role("r", "a", "b", rules=(READ, WRITE)), [])
    assert set(planned.created) == {of(rule, user) for rule in (READ, WRITE) for user in "ab"}
    assert planned.deleted == []


def test_what_exists_is_not_created_again() -> None:
    assert plan({}, role("r", "a"), [of(READ, "a")]).created == []


def test_unbinding_leaves_what_another_role_gives() -> None:
    before = {**role("one", "a"), **role("two", "a", rules=(READ, WRITE))}
    after = {**role("one", "a"), **role("two", rules=(READ, WRITE))}
    planned = plan(before, after, [of(READ, "a"), of(WRITE, "a")])
    assert planned.deleted == [of(WRITE, "a")]


def test_other_acls_are_left_alone() -> None:
    assert plan(role("r", "a"), {}, [of(WRITE, "a"), of(READ, "b")]).deleted == []


def test_other_rules_replace_the_acls_of_the_members() -> None:
    planned = plan(role("r", "a"), role("r", "a", rules=(WRITE,)), [of(READ, "a")])
    assert planned == ([of(WRITE, "a")], [of(READ, "a")])


def test_a_role_is_read_as_it_was_written() -> None:
    (known,) = role("r", "a", rules=(READ, WRITE)).values()
    assert read_role("r", written(known)) == known
    with pytest.raises(ValueError, match="cannot be read"):
        read_role("r", b"{}")


def test_principals_have_a_type_and_a_name() -> None:
    assert check_principals(["User:a", "User:a", "Group:b"]) == ("User:a", "Group:b")
    for wrong in ("alice", "User:", ":alice"):
        with pytest.raises(ValueError, match="no principal"):
            check_principals([wrong])

"""Accounts of users without a password: the connections that they use, and how long accounts are kept."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from ottla.client.errors import AuthenticationFailed, ClusterUnreachable, ConnectionLost, RequestUnsupported, TimedOut
from ottla.client.login import PasswordLogin
from ottla.client.settings import ClientSettings
from ottla.console import logins as logins_module
from ottla.console.accounts import Account
from ottla.console.answers import ApiError
from ottla.console.call import Call, Need
from ottla.console.logins import IDLE_ACCOUNTS_KEPT, Logins
from ottla.console.node_metrics import NodeMetrics
from ottla.console.roles import CLUSTER_OPERATOR, OPERATOR, READER, Role, Roles
from ottla.console.routes.connectors import _trace
from ottla.console.server import _check_right
from ottla.console.sessions import Sessions
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.codec import UnsupportedVersion
from ottla.wire.peers import Endpoint

SETTINGS = ClientSettings(
    bootstrap_servers=(Endpoint("localhost", 1),), login=PasswordLogin("SCRAM-SHA-512", "console", "secret")
)


class FakeAccount:
    """An account whose connection takes a turn of the loop to close."""

    def __init__(self, user: str, *, acts_as_user: bool) -> None:
        self.user, self.acts_as_user = user, acts_as_user
        self.live = SimpleNamespace(viewers=0)
        self.view = SimpleNamespace(state=SimpleNamespace(value=None))
        self.times_closed = 0

    async def close(self) -> None:
        await asyncio.sleep(0)
        self.times_closed += 1


class Tokens:
    """The cluster's answers to requests for delegation tokens."""

    def __init__(self, answers: Iterable[Exception]) -> None:
        self._answers = iter(answers)
        self.asked = 0

    async def create(self, *, owner: str) -> Any:
        self.asked += 1
        await asyncio.sleep(0)
        raise next(self._answers)


OpenedFakes = list[FakeAccount]


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> OpenedFakes:
    """The accounts that were opened."""
    accounts: OpenedFakes = []

    def open_fake(user: str, *_: Any, is_own: bool = True) -> FakeAccount:
        accounts.append(FakeAccount(user, acts_as_user=is_own))
        return accounts[-1]

    monkeypatch.setattr(logins_module, "Account", SimpleNamespace(open=open_fake))
    return accounts


def new_logins(answers: Iterable[Exception], sessions: Sessions | None = None) -> tuple[Logins, Tokens]:
    tokens = Tokens(answers)
    own = SimpleNamespace(admin=SimpleNamespace(tokens=tokens), view=SimpleNamespace(state=SimpleNamespace(value=None)))
    sessions = sessions or Sessions("cookie", is_secure=lambda _: False)
    return Logins(SETTINGS, cast(Account, own), Roles(()), NodeMetrics(()), sessions), tokens


@pytest.mark.parametrize(
    "refusal",
    [
        KafkaError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED),
        KafkaError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED),
        KafkaError(ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED),
        KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
        KafkaError(ErrorCode.UNSUPPORTED_VERSION),
        RequestUnsupported("The node is too old."),
        # A cluster without KIP-373: the request cannot name an owner.
        UnsupportedVersion("owner_principal_type"),
    ],
    ids=repr,
)
def test_where_the_cluster_gives_no_tokens_the_console_acts(refusal: Exception, opened: OpenedFakes) -> None:
    async def scenario() -> None:
        logins, tokens = new_logins([refusal])
        account = await logins.by_identity("User:alice")
        assert not account.acts_as_user
        assert await logins.by_identity("User:alice") is account
        assert tokens.asked == 1

    asyncio.run(scenario())


@pytest.mark.parametrize(
    "failure",
    [
        TimedOut("The cluster did not answer."),
        ConnectionLost("The connection broke."),
        ClusterUnreachable("No address answers."),
        AuthenticationFailed("The console's password is wrong."),
        KafkaError(ErrorCode.REQUEST_TIMED_OUT),
        KafkaError(ErrorCode.NOT_CONTROLLER),
        KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR),
        ValueError("A string is too long."),
    ],
    ids=repr,
)
def test_a_failure_gives_nobody_the_rights_of_the_console(failure: Exception, opened: OpenedFakes) -> None:
    async def scenario() -> None:
        logins, tokens = new_logins([failure, KafkaError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)])
        with pytest.raises(ApiError) as caught:
            await logins.by_identity("User:alice")
        assert caught.value.status == 503
        assert not opened
        # The next login asks the cluster again.
        await logins.by_identity("User:alice")
        assert tokens.asked == 2

    asyncio.run(scenario())


def with_idle_accounts(count: int, sessions: Sessions | None = None) -> Logins:
    logins, _ = new_logins((KafkaError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED) for _ in range(1_000)), sessions)
    for number in range(count):
        idle = cast(Account, FakeAccount(f"User:idle-{number}", acts_as_user=True))
        logins._accounts[b"%d" % number] = idle
    return logins


def accounts_of(logins: Logins) -> list[FakeAccount]:
    return [cast(FakeAccount, account) for account in logins._accounts.values()]


def test_logins_at_once_close_each_idle_account_once(opened: OpenedFakes) -> None:
    async def scenario() -> None:
        sessions = Sessions("cookie", is_secure=lambda _: False)
        logins = with_idle_accounts(IDLE_ACCOUNTS_KEPT, sessions)
        idle = accounts_of(logins)

        async def log_in(user: str) -> None:
            sessions.begin(await logins.by_identity(user))

        await asyncio.gather(*(log_in(f"User:{number}") for number in range(3)))
        await logins.close()
        assert [account.times_closed for account in idle] == [1] * IDLE_ACCOUNTS_KEPT
        assert [account.times_closed for account in opened] == [1] * 3

    asyncio.run(scenario())


def test_an_account_that_is_taken_while_others_are_closed_stays_open(opened: OpenedFakes) -> None:
    async def scenario() -> None:
        sessions = Sessions("cookie", is_secure=lambda _: False)
        logins = with_idle_accounts(IDLE_ACCOUNTS_KEPT - 1, sessions)
        idle = accounts_of(logins)
        await logins.by_identity("User:alice")
        bob = asyncio.ensure_future(logins.by_identity("User:bob"))
        while not idle[0].times_closed:
            await asyncio.sleep(0)
        sessions.begin(await logins.by_identity("User:alice"))
        sessions.begin(await bob)
        while not idle[-1].times_closed:
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert [cast(FakeAccount, account).times_closed for account in sessions.accounts()] == [0, 0]
        await logins.close()

    asyncio.run(scenario())


def test_two_logins_of_a_user_at_once_share_an_account(opened: OpenedFakes) -> None:
    async def scenario() -> None:
        logins = with_idle_accounts(0)
        first, second = await asyncio.gather(logins.by_identity("User:alice"), logins.by_identity("User:alice"))
        assert first is second
        assert len(opened) == 1

    asyncio.run(scenario())


def test_spellings_of_a_name_are_one_user(opened: OpenedFakes, monkeypatch: pytest.MonkeyPatch) -> None:
    """SCRAM takes them for the same name, and roles must not depend on how it is typed."""

    async def open_account(_: Logins, user: str, *__: Any) -> Any:
        opened.append(FakeAccount(user, acts_as_user=True))
        return opened[-1]

    async def run() -> None:
        logins, _ = new_logins([])
        for user in ("alice", "al\u00adice", "\uff41lice"):
            await logins.by_password(user, "secret", "SCRAM-SHA-512", address=None)
        await logins.by_password("al\u00adice", "secret", "PLAIN", address=None)
        with pytest.raises(ApiError):
            await logins.by_password("al\u0007ice", "secret", "SCRAM-SHA-512", address=None)

    monkeypatch.setattr(Logins, "_opened", open_account)
    asyncio.run(run())
    assert [account.user for account in opened] == ["User:alice"] * 3 + ["User:al\u00adice"]


def test_connectors_and_schemas_need_more_than_the_right_to_create_topics() -> None:
    _check_right(OPERATOR, Need.WRITE_SERVICE)
    _check_right(CLUSTER_OPERATOR, Need.WRITE)
    for role in (CLUSTER_OPERATOR, READER):
        with pytest.raises(ApiError) as refused:
            _check_right(role, Need.WRITE_SERVICE)
        assert refused.value.status == 403


@pytest.mark.parametrize(
    ("role", "is_whole"), [(READER, True), (Role(name="blind", can_read_messages=False), False)], ids=["all", "blind"]
)
def test_a_trace_that_may_quote_records_is_for_those_who_may_read_them(role: Role, is_whole: bool) -> None:
    call = cast(Call, SimpleNamespace(account=SimpleNamespace(role=role)))
    trace = _trace(call, {"trace": 'DataException: this is no JSON: {"card": 4711\n  at line 1'})
    assert trace is not None
    assert trace.startswith("DataException")
    assert ("4711" in trace) is is_whole
    assert _trace(call, {}) is None

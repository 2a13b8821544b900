"""Logins: a user authenticates and gets an account.

A password is tried against the cluster, and the account acts with that login: the cluster's own rights decide, and its
audit names the user. For users whom the console knows by a certificate or an identity provider, the console asks the
cluster for a delegation token of the user (KIP-48, KIP-373) and acts with it. If the cluster refuses tokens for good,
the account acts with the console's own connection, and the roles of the console alone decide. If the cluster does not
answer, the login fails.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import logging
import secrets
import time
from collections.abc import Iterable
from dataclasses import replace

from ottla.client.admin import AdminClient
from ottla.client.errors import AuthenticationFailed, ClientError, RequestUnsupported
from ottla.client.login import Login, PasswordLogin
from ottla.client.settings import ClientSettings
from ottla.console.accounts import Account
from ottla.console.answers import ApiError, invalid
from ottla.console.failed_logins import FailedLogins
from ottla.console.node_metrics import NodeMetrics
from ottla.console.roles import CLUSTER_OPERATOR, OPERATOR, READER, Role, Roles
from ottla.console.sessions import Sessions
from ottla.model.access import Operation
from ottla.model.errors import ErrorCode, KafkaError
from ottla.sasl.saslprep import saslprep
from ottla.sasl.scram import MECHANISMS as SCRAM_MECHANISMS
from ottla.wire.codec import UnsupportedVersion
from ottla.wire.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse

__all__ = ["Logins", "MECHANISMS"]

logger = logging.getLogger(__name__)

MECHANISMS = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN")
ATTEMPTS_AT_ONCE_MAX = 16
ACCOUNTS_MAX = 1_000
IDLE_ACCOUNTS_KEPT = 50
# Delegation tokens are valid for a day by default, and sessions for half a day.
DELEGATED_SECONDS_MAX = 11 * 3600.0
LOGIN_TIMEOUT_MS = 10_000
# Rights on the cluster that make a user more than a reader. Connectors and schemas are changed with the console's own
# credentials, so the cluster does not check the user again: they need the first of the rights.
_CHANGING = (Operation.ALTER, Operation.ALTER_CONFIGS, Operation.CREATE)
# The cluster has no delegation tokens, or none for connections like the console's.
_NO_TOKENS = (
    ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED,
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
    ErrorCode.UNSUPPORTED_VERSION,
)


class Logins:
    """Keeps accounts by their credentials: a second session of a user shares connections and live figures."""

    def __init__(
        self, client: ClientSettings, own: Account, roles: Roles, metrics: NodeMetrics, sessions: Sessions
    ) -> None:
        self._client = client
        self._sessions = sessions
        self._own = own
        self._roles = roles
        self._metrics = metrics
        self._accounts: dict[bytes, Account] = {}
        # The creation times of the accounts' delegation tokens, which expire.
        self._delegated_at: dict[bytes, float] = {}
        self._key = secrets.token_bytes(32)
        self._turns = asyncio.Semaphore(ATTEMPTS_AT_ONCE_MAX)
        self._failures = FailedLogins()
        self._closing: set[asyncio.Task[None]] = set()

    async def close(self) -> None:
        accounts, self._accounts = self._accounts, {}
        for account in accounts.values():
            await account.close()
        await asyncio.gather(*self._closing, return_exceptions=True)

    async def by_password(self, user: str, password: str, mechanism: str | None, *, address: str | None) -> Account:
        """Raises ApiError 401 for a wrong password, and 429 after many from this address."""
        if mechanism is not None and mechanism not in MECHANISMS:
            raise invalid(f"mechanism is one of {', '.join(MECHANISMS)}.")
        with self._failures.attempt(user, address):
            return await self._proven(user, password, mechanism, address)

    async def _proven(self, user: str, password: str, mechanism: str | None, address: str | None) -> Account:
        reasons = []
        async with self._turns:
            for name in self._mechanisms(mechanism):
                login = PasswordLogin(name, user, password)
                known_as = _name_in_the_cluster(name, user)
                try:
                    return await self._opened(f"User:{known_as}", login, self._fingerprint(name, known_as, password))
                except AuthenticationFailed as error:
                    reasons.append(str(error))
        logger.info("Login of %r from %s failed: %s", user, address, "; ".join(reasons))
        raise ApiError(401, "LOGIN_FAILED", "The cluster does not know this user and password.", _hint(reasons))

    async def by_token(self, user: str, token: str, groups: Iterable[str]) -> Account:
        """A user of an identity provider whose tokens the cluster accepts itself."""
        from ottla.client.oauth.sources import from_callable
        from ottla.client.oauth.tokens import OAuthLogin

        async def current() -> str:
            return token

        login = OAuthLogin(from_callable(current), user=user)
        return await self._opened(user, login, self._fingerprint("OAUTHBEARER", user, token), groups)

    async def by_identity(self, user: str, groups: Iterable[str] = ()) -> Account:
        """A user whom the console knows by a certificate or an identity provider."""
        sorted_groups = sorted(groups)
        key = self._fingerprint("identity", user, *sorted_groups)
        if (account := self._usable(key)) is not None:
            return account
        login = await self._delegated(user)
        # Another login of the user may have been faster.
        if (account := self._usable(key)) is not None:
            return account
        if key in self._accounts:
            # The account with the old token stays, because its sessions end before that token expires.
            self._accounts[secrets.token_bytes(32)] = self._accounts.pop(key)
        if login is None:
            role = self._roles.of([user, *sorted_groups]) or READER
            return self._kept(key, Account.open(user, self._client, role, self._metrics, is_own=False))
        self._delegated_at[key] = time.monotonic()
        return await self._opened(user, login, key, sorted_groups)

    def _usable(self, key: bytes) -> Account | None:
        """The account of an identity, unless its delegation token is too old."""
        account = self._accounts.get(key)
        is_fresh = time.monotonic() - self._delegated_at.get(key, 0.0) < DELEGATED_SECONDS_MAX
        return account if account is not None and (is_fresh or not account.acts_as_user) else None

    def _mechanisms(self, mechanism: str | None) -> list[str]:
        if mechanism is not None:
            return [mechanism]
        own = None if self._client.login is None else self._client.login.mechanism
        if own in MECHANISMS:
            return [own]
        # A password in clear text is sent only if the user asks for it, or the console itself does so.
        return [name for name in MECHANISMS if name in SCRAM_MECHANISMS]

    async def _opened(self, user: str, login: Login, key: bytes, groups: Iterable[str] = ()) -> Account:
        """Raises AuthenticationFailed. A known account has the same credentials, but they may be outdated."""
        settings = replace(self._reachable(), login=login)
        probe = AdminClient(replace(settings, api_timeout_ms=LOGIN_TIMEOUT_MS))
        async with probe:
            # The request proves the login, so it is sent even if its answer is not needed.
            by_rights = await _role_by_rights(probe)
        role = self._roles.of([user, *groups]) or by_rights
        if key in self._accounts:
            return self._accounts[key]
        return self._kept(key, Account.open(user, settings, role, self._metrics))

    def _reachable(self) -> ClientSettings:
        """The console's settings with the brokers that an account has found: the configured brokers may be lost."""
        for account in (*self._accounts.values(), self._own):
            if account.view.state.value is not None:
                return replace(self._client, bootstrap_servers=account.settings.bootstrap_servers)
        return self._client

    def _kept(self, key: bytes, account: Account) -> Account:
        """Keeps a new account. Accounts without a session are closed first.

        Nothing is awaited here, because the new account looks idle to other logins until its session begins.
        """
        used = {id(active) for active in self._sessions.accounts()}
        idle_keys = [
            known_key
            for known_key, candidate in self._accounts.items()
            if id(candidate) not in used and candidate.live.viewers == 0
        ]
        for idle_key in idle_keys if len(self._accounts) >= IDLE_ACCOUNTS_KEPT else ():
            self._delegated_at.pop(idle_key, None)
            self._close_soon(self._accounts.pop(idle_key))
        if len(self._accounts) >= ACCOUNTS_MAX:
            self._close_soon(account)
            raise ApiError(429, "TOO_MANY", "Too many users are logged in.", "Try again later.")
        self._accounts[key] = account
        return account

    def _close_soon(self, account: Account) -> None:
        task = asyncio.get_running_loop().create_task(account.close())
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def _delegated(self, user: str) -> PasswordLogin | None:
        """A login with a token of the user; None if the cluster refuses tokens to the console. Raises ApiError 503."""
        own = self._client.login
        if own is None:
            return None
        try:
            token = await self._own.admin.tokens.create(owner=user)
        except (KafkaError, ClientError, ValueError) as error:
            if not _is_refusal(error):
                # The login fails, because the console's own connection may have more rights than the user.
                logger.warning("Login of %s failed: the cluster's answer to a request for a token is %r", user, error)
                raise ApiError(
                    503, "LOGIN_FAILED", "The cluster gives no delegation token at the moment.", "Try again."
                ) from None
            logger.info("%s acts with the console's own connection: the cluster gives no token (%s)", user, error)
            return None
        mechanism = own.mechanism if own.mechanism in SCRAM_MECHANISMS else MECHANISMS[0]
        return PasswordLogin(mechanism, token.token_id, base64.b64encode(token.hmac).decode(), is_token=True)

    def _fingerprint(self, *parts: str) -> bytes:
        """The key that finds an account again, so that no password is kept in a dictionary."""
        return hmac.new(self._key, json.dumps(parts).encode(), hashlib.sha256).digest()


def _is_refusal(error: Exception) -> bool:
    """True if the cluster refuses tokens until its settings or rights change, so that a retry is useless."""
    if isinstance(error, KafkaError):
        return error.code in _NO_TOKENS or error.code.name.endswith("AUTHORIZATION_FAILED")
    # Clusters before 3.3 do not issue tokens of other users.
    return isinstance(error, RequestUnsupported | UnsupportedVersion)


async def _role_by_rights(admin: AdminClient) -> Role:
    """Without a role of the console, the rights of the user on the cluster decide whether buttons are shown."""
    response: DescribeClusterResponse = await admin.connections.ask_any(
        DescribeClusterRequest(include_cluster_authorized_operations=True)
    )
    allowed = response.cluster_authorized_operations
    # The smallest number means that the cluster does not report the rights.
    if allowed == -(1 << 31):
        return READER
    if allowed & (1 << int(Operation.ALTER)):
        return OPERATOR
    return CLUSTER_OPERATOR if any(allowed & (1 << int(operation)) for operation in _CHANGING) else READER


def _name_in_the_cluster(mechanism: str, user: str) -> str:
    """SCRAM has one name for several spellings, and the roles of the console must not depend on the spelling."""
    if mechanism not in SCRAM_MECHANISMS:
        return user
    try:
        return saslprep(user)
    except ValueError as error:
        raise invalid(f"The name of the user is not valid: {error}.") from None


def _hint(reasons: list[str]) -> str | None:
    offered = next((reason for reason in reasons if "does not offer" in reason), None)
    return None if offered is None else offered.partition(";")[2].strip().capitalize() or None

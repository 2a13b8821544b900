"""Users of Basic authentication, with passwords in clear text or hashed.

A hashed password is `pbkdf2-sha256$ITERATIONS$SALT$HASH`. A check takes a tenth of a second, which slows down guessing.
So it runs on a thread, once for each user and password. A keyed hash of accepted credentials is kept, and later
requests are compared with it.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import os
from collections import deque
from collections.abc import Mapping

from ottla.registry.core.errors import RegistryError

__all__ = ["Passwords", "hashed_password"]

_FORM = "pbkdf2-sha256"
_ITERATIONS = 200_000
_ITERATIONS_MAX = 10_000_000
_SALT_BYTES = 16
_ACCEPTED_MAX = 10_000
# Checks of an address that run or wait: many users may start together behind one proxy. The last of them waits about
# ten seconds, less than clients do.
_CHECKS_OF_ADDRESS_MAX = 100


def hashed_password(password: str) -> str:
    salt = os.urandom(_SALT_BYTES)
    digest = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, _ITERATIONS)
    return f"{_FORM}${_ITERATIONS}${base64.b64encode(salt).decode()}${base64.b64encode(digest).decode()}"


class Passwords:
    """Raises ValueError for a hashed password that cannot be read."""

    def __init__(self, users: Mapping[str, str]) -> None:
        self._users = dict(users)
        self._key = os.urandom(32)
        self._accepted: set[bytes] = set()
        # Unauthenticated clients can cause checks at will. One check at a time leaves the other threads free, and
        # addresses take turns: an address with many checks delays every check of another address by one.
        self._turns = _Turns()
        # By address: the checks that run or wait.
        self._checks: dict[str, int] = {}
        # The same by credentials: clients that start together, also behind one address, share a check.
        self._shared: dict[bytes, asyncio.Task[bool]] = {}
        # Compared with the passwords of unknown users, so that the time of an answer does not reveal which users exist.
        self._of_unknown_users = ""
        for user, password in self._users.items():
            if password.startswith(f"{_FORM}$"):
                try:
                    _parts(password)
                except ValueError:
                    raise ValueError(f"The hashed password of {user} cannot be read.") from None
                self._of_unknown_users = password

    async def user_of(self, encoded: str, address: str = "") -> str | None:
        """The user of Basic credentials, or None if they are wrong.

        Raises RegistryError 429 if too many checks of the client's address wait already.
        """
        try:
            user, _, password = base64.b64decode(encoded, validate=True).decode().partition(":")
        except ValueError:
            # Not ASCII, not base64 or not UTF-8.
            return None
        mark = hmac.digest(self._key, encoded.encode(), "sha256")
        if mark in self._accepted:
            return user
        expected = self._users.get(user, self._of_unknown_users)
        if expected.startswith(f"{_FORM}$"):
            is_right = await self._checked(mark, password, expected, address)
        else:
            is_right = hmac.compare_digest(password.encode(), expected.encode())
        if not is_right or user not in self._users:
            return None
        if len(self._accepted) >= _ACCEPTED_MAX:
            self._accepted.clear()
        self._accepted.add(mark)
        return user

    async def _checked(self, mark: bytes, password: str, expected: str, address: str) -> bool:
        task = self._shared.get(mark)
        if task is None:
            count = self._checks.get(address, 0)
            if count >= _CHECKS_OF_ADDRESS_MAX:
                raise RegistryError(429, "Too many passwords of your address are being checked. Try again.")
            self._checks[address] = count + 1
            task = self._shared[mark] = asyncio.ensure_future(self._check(mark, password, expected, address))
        # A client that goes away does not end the check of the other clients.
        return await asyncio.shield(task)

    async def _check(self, mark: bytes, password: str, expected: str, address: str) -> bool:
        try:
            await self._turns.wait(address)
            try:
                return await asyncio.to_thread(_matches, password, expected)
            finally:
                self._turns.end()
        finally:
            del self._shared[mark]
            self._checks[address] -= 1
            if not self._checks[address]:
                del self._checks[address]


class _Turns:
    """One turn at a time; the addresses that wait have theirs one after the other."""

    def __init__(self) -> None:
        self._is_taken = False
        # In the order of the next turns.
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    async def wait(self, address: str) -> None:
        if not self._is_taken:
            self._is_taken = True
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(address, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.end()
            raise

    def end(self) -> None:
        while self._waiting:
            address = next(iter(self._waiting))
            turns = self._waiting.pop(address)
            turn = turns.popleft()
            if turns:
                self._waiting[address] = turns
            if not turn.done():
                turn.set_result(None)
                return
        self._is_taken = False


def _matches(password: str, expected: str) -> bool:
    iterations, salt, wanted = _parts(expected)
    return hmac.compare_digest(hashlib.pbkdf2_hmac("sha256", password.encode(), salt, iterations), wanted)


def _parts(expected: str) -> tuple[int, bytes, bytes]:
    _, iterations, salt, wanted = expected.split("$")
    if not 0 < int(iterations) <= _ITERATIONS_MAX:
        raise ValueError("iterations")
    return int(iterations), base64.b64decode(salt, validate=True), base64.b64decode(wanted, validate=True)

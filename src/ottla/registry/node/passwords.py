"""Users of Basic authentication, with passwords in clear text or hashed.

A hashed password is `pbkdf2-sha256$ITERATIONS$SALT$HASH`. Checking one takes a tenth of a second, which slows down
guessing. So it is done on a thread, once for each user and password. A keyed hash of accepted credentials is kept, and
later requests are compared with it.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import os
from collections.abc import Mapping

__all__ = ["Passwords", "hashed_password"]

_FORM = "pbkdf2-sha256"
_ITERATIONS = 200_000
_ITERATIONS_MAX = 10_000_000
_SALT_BYTES = 16
_ACCEPTED_MAX = 10_000


def hashed_password(password: str) -> str:
    salt = os.urandom(_SALT_BYTES)
    found = hashlib.pbkdf2_hmac("sha256", password.encode(), salt, _ITERATIONS)
    return f"{_FORM}${_ITERATIONS}${base64.b64encode(salt).decode()}${base64.b64encode(found).decode()}"


class Passwords:
    """Raises ValueError for a hashed password that cannot be read."""

    def __init__(self, users: Mapping[str, str]) -> None:
        self._users = dict(users)
        self._key = os.urandom(32)
        self._accepted: set[bytes] = set()
        # Strangers can ask for checks at will. One at a time leaves the other threads to other work.
        self._checking = asyncio.Semaphore(1)
        # Compared with the passwords of users that do not exist, so that the time of an answer does not tell who does.
        self._of_unknown_users = ""
        for user, password in self._users.items():
            if password.startswith(f"{_FORM}$"):
                try:
                    _parts(password)
                except ValueError:
                    raise ValueError(f"The hashed password of {user} cannot be read.") from None
                self._of_unknown_users = password

    async def user_of(self, encoded: str) -> str | None:
        """The user of Basic credentials, or None if they are wrong."""
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
            async with self._checking:
                is_right = await asyncio.to_thread(_matches, password, expected)
        else:
            is_right = hmac.compare_digest(password.encode(), expected.encode())
        if not is_right or user not in self._users:
            return None
        if len(self._accepted) >= _ACCEPTED_MAX:
            self._accepted.clear()
        self._accepted.add(mark)
        return user


def _matches(password: str, expected: str) -> bool:
    iterations, salt, wanted = _parts(expected)
    return hmac.compare_digest(hashlib.pbkdf2_hmac("sha256", password.encode(), salt, iterations), wanted)


def _parts(expected: str) -> tuple[int, bytes, bytes]:
    _, iterations, salt, wanted = expected.split("$")
    if not 0 < int(iterations) <= _ITERATIONS_MAX:
        raise ValueError("iterations")
    return int(iterations), base64.b64decode(salt, validate=True), base64.b64decode(wanted, validate=True)

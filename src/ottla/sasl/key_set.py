"""The public keys of an identity provider (JWKS, RFC 7517), kept and refreshed.

The keys are read when the node starts, which fails without them. Later they are read again on a worker: when they have
become old, and when a token names an unknown key, because providers rotate keys. Unauthenticated clients can send such
tokens at will, so unknown keys cause at most one read in `UNKNOWN_KEY_SECONDS`.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.model.deferred import Deferred

if TYPE_CHECKING:
    from ottla.model.ports import World

__all__ = ["KeySet", "PublicKey", "parse_keys"]

logger = logging.getLogger("ottla.broker.authentication")

# The kinds of keys and the algorithms that they are used with. Neither shared secrets nor `none` are among them: a
# public key must not be taken for a shared secret.
ALGORITHMS = {
    "RSA": ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    "EC": ("ES256", "ES384", "ES512"),
    "OKP": ("EdDSA",),
}
UNKNOWN_KEY_SECONDS = 10.0
KEYS_MAX = 1_000


class PublicKey(NamedTuple):
    key_id: str | None
    algorithms: tuple[str, ...]
    # A key of the package `cryptography`.
    key: Any


def parse_keys(document: bytes) -> list[PublicKey]:
    """The keys for signatures in a document; raises ValueError if there is none."""
    from jwt import PyJWK
    from jwt.exceptions import PyJWTError

    try:
        entries = json.loads(document)["keys"]
    except (ValueError, KeyError, TypeError):
        raise ValueError("it is no JSON document with an array `keys`") from None
    keys: list[PublicKey] = []
    for entry in entries[:KEYS_MAX] if isinstance(entries, list) else ():
        if not isinstance(entry, dict) or entry.get("use", "sig") != "sig":
            continue
        algorithms = ALGORITHMS.get(str(entry.get("kty")), ())
        if "alg" in entry:
            algorithms = tuple(name for name in algorithms if name == entry["alg"])
        if not algorithms:
            continue
        try:
            key = PyJWK(entry, algorithm=algorithms[0]).key
        except (PyJWTError, ValueError, TypeError, KeyError):
            # A key of a kind that the library does not support is skipped; the other keys stay usable.
            continue
        keys.append(PublicKey(entry.get("kid"), algorithms, key))
    if not keys:
        raise ValueError("it has no public key for signatures that can be used")
    return keys


class KeySet:
    """`fetch` reads the document. It blocks, and raises OSError."""

    def __init__(
        self,
        fetch: Callable[[], bytes],
        world: World,
        *,
        refresh_seconds: float,
        retry_seconds: float = 0.1,
        retry_seconds_max: float = 10.0,
    ) -> None:
        self._fetch = fetch
        self._clock = world.clock
        self._workers = world.workers
        self._refresh_seconds = refresh_seconds
        self._retry_seconds = retry_seconds
        self._retry_seconds_max = retry_seconds_max
        self._failures = 0
        self._keys: list[PublicKey] = []
        self._due_at = 0.0
        self._unknown_at = float("-inf")
        self._pending: Deferred[None] | None = None

    def load(self) -> None:
        """Reads the keys at once. Raises OSError and ValueError."""
        self._take(parse_keys(self._fetch()))

    def find(self, key_id: str | None, algorithm: str) -> PublicKey | Deferred[PublicKey | None] | None:
        """The key of a token, or None; a Deferred if the keys have to be read again first."""
        now = self._clock.monotonic()
        if now >= self._due_at and self._pending is None:
            self._refresh()
        key = self._known(key_id, algorithm)
        if key is not None:
            return key
        pending = self._pending
        if pending is None:
            if now - self._unknown_at < UNKNOWN_KEY_SECONDS:
                return None
            self._unknown_at = now
            pending = self._refresh()
        return pending.then(lambda _: self._known(key_id, algorithm))

    def _known(self, key_id: str | None, algorithm: str) -> PublicKey | None:
        fitting = [key for key in self._keys if algorithm in key.algorithms]
        if key_id is None:
            return fitting[0] if len(fitting) == 1 else None
        return next((key for key in fitting if key.key_id == key_id), None)

    def _refresh(self) -> Deferred[None]:
        """Reads the keys on a worker. A failed read keeps the old keys."""
        finished: Deferred[None] = Deferred()
        self._pending = finished

        def on_read(read: Deferred[list[PublicKey]]) -> None:
            self._pending = None
            if read.error is None:
                self._take(read.result())
            else:
                logger.warning("the keys of the identity provider stay as they were: %s", read.error)
                pause = min(self._retry_seconds * 2 ** min(self._failures, 20), self._retry_seconds_max)
                self._failures += 1
                self._due_at = self._clock.monotonic() + pause
            finished.resolve(None)

        self._workers.submit(lambda: parse_keys(self._fetch())).when_done(on_read)
        return finished

    def _take(self, keys: list[PublicKey]) -> None:
        self._keys, self._failures = keys, 0
        self._due_at = self._clock.monotonic() + self._refresh_seconds

"""The credentials of delegation tokens, derived with the first login with a token and kept.

A derivation takes some milliseconds, so a worker does it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.sasl.delegation import token_keys
from ottla.sasl.scram import ScramKeys, TokenCredential

if TYPE_CHECKING:
    from ottla.metadata.publishers import Publishers
    from ottla.model.deferred import Deferred
    from ottla.model.ports import Clock, Workers

__all__ = ["TokenCredentials"]

# The credentials that are kept.
KEPT_MAX = 10_000


class TokenCredentials:
    def __init__(self, metadata: Publishers, clock: Clock, workers: Workers, secret: str) -> None:
        self._metadata = metadata
        self._clock = clock
        self._workers = workers
        self._secret = secret
        self._derived_keys: dict[tuple[str, str], ScramKeys] = {}

    def find(self, mechanism: str, token_id: str) -> TokenCredential | Deferred[TokenCredential | None] | None:
        """None for a token that does not exist or has expired. Only an existing token costs a derivation."""
        token = self._metadata.image.delegation_tokens.get(token_id)
        if token is None or token.expiration_timestamp <= self._clock.now_ms():
            return None
        owner, groups, expires_ms = token.owner.partition(":")[2], token.owner_groups, token.expiration_timestamp
        keys = self._derived_keys.get((token_id, mechanism))
        if keys is not None:
            return TokenCredential(keys, owner, expires_ms, groups)

        def keep(derived: ScramKeys) -> TokenCredential | None:
            derived_keys = self._derived_keys
            derived_keys[token_id, mechanism] = derived
            if len(derived_keys) > KEPT_MAX:
                del derived_keys[next(iter(derived_keys))]
            return TokenCredential(derived, owner, expires_ms, groups)

        return self._workers.submit(token_keys, mechanism, self._secret, token_id).then(keep)

"""Keys in the transit engine of HashiCorp Vault or OpenBao, over HTTP.

The key-encryption keys stay in Vault, which encrypts and decrypts data keys. `vault write -f transit/keys/orders` makes
a key, `vault write -f transit/keys/orders/rotate` rotates it. Other services implement `keys.KeyService`.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable
from functools import partial
from http.client import HTTPException
from urllib.parse import quote

from ottla.encryption.keys import KeyServiceError, KeyServiceUnavailable

__all__ = ["VaultKeyService"]

SECONDS_MAX = 10.0
ANSWER_BYTES_MAX = 64 * 1024
# Vault's answers about a key or a ciphertext. Other statuses, such as 503 for a sealed Vault, 429 and the redirect of a
# standby node, are outages.
_REFUSALS = (400, 403, 404)
_URL = re.compile(r"https?://[^\s]+")


class VaultKeyService:
    def __init__(self, url: str, token: str, *, mount: str = "transit", ca_file: str | None = None) -> None:
        if _URL.fullmatch(url) is None:
            raise KeyServiceError(f"{url!r} is not the address of a key service like https://vault:8200.")
        self._arguments = (url, token, mount, ca_file)
        self._base = f"{url.rstrip('/')}/v1/{mount.strip('/')}"
        self._token = token
        context = ssl.create_default_context(cafile=ca_file) if url.startswith("https:") else None
        # No redirects: they would carry the token to another server.
        self._opener = urllib.request.build_opener(
            _NoRedirects(), *([urllib.request.HTTPSHandler(context=context)] if context else [])
        )

    def __reduce__(self) -> tuple[Callable[..., VaultKeyService], tuple[str, str]]:
        """For copies in another process, such as an executor of Spark, with the same token."""
        url, token, mount, ca_file = self._arguments
        return partial(VaultKeyService, mount=mount, ca_file=ca_file), (url, token)

    def wrap(self, key_name: str, data_key: bytes) -> bytes:
        answer = self._ask("encrypt", key_name, {"plaintext": base64.b64encode(data_key).decode()})
        return self._field(answer, "ciphertext").encode()

    def unwrap(self, key_name: str, wrapped_key: bytes) -> bytes:
        answer = self._ask("decrypt", key_name, {"ciphertext": wrapped_key.decode(errors="replace")})
        try:
            return base64.b64decode(self._field(answer, "plaintext"), validate=True)
        except binascii.Error:
            raise KeyServiceUnavailable(f"{self._base} answered with a key that is not base64.") from None

    def close(self) -> None:
        self._opener.close()

    def _ask(self, action: str, key_name: str, body: dict[str, str]) -> object:
        url = f"{self._base}/{action}/{quote(key_name, safe='')}"
        request = urllib.request.Request(
            url,
            data=json.dumps(body).encode(),
            headers={"X-Vault-Token": self._token, "Content-Type": "application/json"},
            method="POST",
        )
        try:
            with self._opener.open(request, timeout=SECONDS_MAX) as response:
                return json.loads(response.read(ANSWER_BYTES_MAX))
        except urllib.error.HTTPError as error:
            with error:
                kind = KeyServiceError if error.code in _REFUSALS else KeyServiceUnavailable
                raise kind(f"{url} refused: {error.code} {_refusal_reasons(error)}") from None
        except (OSError, ValueError, HTTPException) as error:
            reason = getattr(error, "reason", error)
            raise KeyServiceUnavailable(f"{url} cannot be asked: {reason}.") from None

    def _field(self, answer: object, name: str) -> str:
        data = answer.get("data") if isinstance(answer, dict) else None
        value = data.get(name) if isinstance(data, dict) else None
        if not isinstance(value, str):
            raise KeyServiceUnavailable(f"{self._base} answered without {name}.")
        return value


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        return None


def _refusal_reasons(error: urllib.error.HTTPError) -> str:
    """The errors in Vault's answer, which name no secrets."""
    try:
        return "; ".join(json.loads(error.read(ANSWER_BYTES_MAX))["errors"])
    except (OSError, HTTPException, ValueError, KeyError, TypeError):
        return ""

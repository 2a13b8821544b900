"""End-to-end encryption: values are encrypted before they leave the producer, and the log holds ciphertext only.

Every value is encrypted with AES-GCM under a data key. The data key is encrypted in turn by a key-encryption key of a
key service (a file, Vault, or your own implementation) and travels with each record. So one request to the key service
serves many records, and rotating a key-encryption key changes no records.
"""

from __future__ import annotations

from ottla.encryption.envelope import EnvelopeError
from ottla.encryption.file_keys import FileKeyService
from ottla.encryption.keys import DataKeys, KeyService, KeyServiceError, KeyServiceUnavailable
from ottla.encryption.serializers import DecryptingDeserializer, EncryptingSerializer
from ottla.encryption.vault_keys import VaultKeyService

__all__ = [
    "DataKeys",
    "DecryptingDeserializer",
    "EncryptingSerializer",
    "EnvelopeError",
    "FileKeyService",
    "KeyService",
    "KeyServiceError",
    "KeyServiceUnavailable",
    "VaultKeyService",
]

"""Errors of the registry: an HTTP status, a code in the body and a message, as Confluent's clients expect."""

from __future__ import annotations

__all__ = ["RegistryError"]


class RegistryError(Exception):
    """`code` is the `error_code` of the body; its first three digits are the HTTP status."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message

    @property
    def status(self) -> int:
        return self.code if self.code < 1000 else self.code // 100

    @classmethod
    def subject_not_found(cls, subject: str) -> RegistryError:
        return cls(40401, f"Subject '{subject}' not found.")

    @classmethod
    def version_not_found(cls, version: object) -> RegistryError:
        return cls(40402, f"Version {version} not found.")

    @classmethod
    def schema_not_found(cls, identity: object = None) -> RegistryError:
        return cls(40403, "Schema not found" if identity is None else f"Schema {identity} not found")

    @classmethod
    def subject_soft_deleted(cls, subject: str) -> RegistryError:
        return cls(
            40404,
            f"Subject '{subject}' was soft deleted. Set permanent=true to delete permanently",
        )

    @classmethod
    def subject_not_soft_deleted(cls, subject: str) -> RegistryError:
        return cls(40405, f"Subject '{subject}' was not deleted first before being permanently deleted")

    @classmethod
    def version_soft_deleted(cls, subject: str, version: int) -> RegistryError:
        return cls(
            40406,
            f"Subject '{subject}' Version {version} was soft deleted. Set permanent=true to delete permanently",
        )

    @classmethod
    def version_not_soft_deleted(cls, subject: str, version: int) -> RegistryError:
        return cls(
            40407, f"Subject '{subject}' Version {version} was not deleted first before being permanently deleted"
        )

    @classmethod
    def referenced(cls, subject: str, version: int) -> RegistryError:
        return cls(
            42206,
            f"One or more references exist to the schema {{magic=1,keytype=SCHEMA,subject={subject},"
            f"version={version}}}.",
        )

    @classmethod
    def no_subject_config(cls, subject: str) -> RegistryError:
        return cls(40408, f"Subject '{subject}' does not have subject-level compatibility configured")

    @classmethod
    def no_subject_mode(cls, subject: str) -> RegistryError:
        return cls(40409, f"Subject '{subject}' does not have subject-level mode configured")

    @classmethod
    def incompatible(cls, subject: str, details: str) -> RegistryError:
        return cls(
            409,
            f'Schema being registered is incompatible with an earlier schema for subject "{subject}", details: '
            f"{details}",
        )

    @classmethod
    def invalid_schema(cls, reason: str) -> RegistryError:
        return cls(42201, f"Invalid schema: {reason}")

    @classmethod
    def invalid_version(cls, text: str) -> RegistryError:
        return cls(
            42202,
            f"The specified version '{text}' is not a valid version id. Allowed values are between [1, 2^31-1] and "
            'the string "latest"',
        )

    @classmethod
    def invalid_subject(cls, subject: str) -> RegistryError:
        return cls(42208, f"The specified subject '{subject}' is not a valid.")

    @classmethod
    def not_permitted(cls, reason: str) -> RegistryError:
        return cls(42205, reason)

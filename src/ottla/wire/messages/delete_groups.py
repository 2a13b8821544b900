# Written by tools/generate_messages.py from definitions/42_delete_groups.txt: change the definition, not this file.
"""DeleteGroups, API key 42.

Deletes groups without members. 3 adds an error message for each group (KIP-1331).
"""

from __future__ import annotations

from ottla.wire.message import EMPTY, Message, Request, Structure

__all__ = [
    "DeletableGroupResult",
    "DeleteGroupsRequest",
    "DeleteGroupsResponse",
]


class DeleteGroupsRequest(Request["DeleteGroupsResponse"]):
    """Request, versions 0 to 3, flexible since 2."""

    __slots__ = ("groups_names",)

    API_KEY = 42
    VERSIONS = (0, 3)
    FLEXIBLE_SINCE = 2
    FIELDS = (("groups_names", "[string]", (0, 32767), None, None, (), False),)

    def __init__(
        self,
        *,
        groups_names: list[str] = EMPTY,
    ) -> None:
        self.groups_names = [] if groups_names is EMPTY else groups_names


class DeletableGroupResult(Structure):
    """An element of `DeleteGroupsResponse.results`."""

    __slots__ = ("group_id", "error_code", "error_message")

    FIELDS = (
        ("group_id", "string", (0, 32767), None, None, "", False),
        ("error_code", "int16", (0, 32767), None, None, 0, False),
        ("error_message", "string", (3, 32767), (0, 32767), None, None, True),
    )

    def __init__(
        self,
        *,
        group_id: str = "",
        error_code: int = 0,
        error_message: str | None = None,
    ) -> None:
        self.group_id = group_id
        self.error_code = error_code
        self.error_message = error_message


class DeleteGroupsResponse(Message):
    """Response, versions 0 to 3, flexible since 2."""

    __slots__ = ("throttle_time_ms", "results")

    API_KEY = 42
    VERSIONS = (0, 3)
    FLEXIBLE_SINCE = 2
    FIELDS = (
        ("throttle_time_ms", "int32", (0, 32767), None, None, 0, False),
        ("results", "[DeletableGroupResult]", (0, 32767), None, None, (), False),
    )

    def __init__(
        self,
        *,
        throttle_time_ms: int = 0,
        results: list[DeletableGroupResult] = EMPTY,
    ) -> None:
        self.throttle_time_ms = throttle_time_ms
        self.results = [] if results is EMPTY else results

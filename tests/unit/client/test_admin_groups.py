"""Groups whose coordinators have moved."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from ottla.client.admin.groups import Groups
from ottla.client.errors import check
from ottla.model.errors import ErrorCode, KafkaError
from ottla.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse


class Cluster:
    """Every group has a coordinator; cached coordinators may be stale."""

    GROUP = 0

    def __init__(self, coordinators: dict[str, int], remembered: dict[str, int]) -> None:
        self.coordinators = coordinators
        self.remembered = remembered
        self.requests: list[tuple[int, list[str]]] = []
        self.deleted: set[str] = set()

    async def retry(self, attempt: Callable[[], Awaitable[Any]]) -> Any:
        return await attempt()

    async def coordinator(self, _kind: int, group_id: str) -> int:
        return self.remembered.setdefault(group_id, self.coordinators[group_id])

    def forget_coordinator(self, _kind: int, group_id: str) -> None:
        self.remembered.pop(group_id, None)

    async def ask_coordinator(
        self,
        kind: int,
        group_id: str,
        request: DeleteGroupsRequest,
        codes: Callable[[DeleteGroupsResponse], Iterable[int]],
    ) -> DeleteGroupsResponse:
        for _ in range(3):
            response = self._delete(await self.coordinator(kind, group_id), request.groups_names)
            error_codes = list(codes(response))
            if ErrorCode.NOT_COORDINATOR not in error_codes:
                return response
            self.forget_coordinator(kind, group_id)
        check(ErrorCode.NOT_COORDINATOR)
        raise AssertionError

    def _delete(self, node_id: int, group_ids: list[str]) -> DeleteGroupsResponse:
        self.requests.append((node_id, list(group_ids)))
        results = []
        for group_id in group_ids:
            code = ErrorCode.NONE
            if self.coordinators[group_id] != node_id:
                code = ErrorCode.NOT_COORDINATOR
            elif group_id in self.deleted:
                code = ErrorCode.GROUP_ID_NOT_FOUND
            else:
                self.deleted.add(group_id)
            results.append(DeletableGroupResult(group_id=group_id, error_code=code))
        return DeleteGroupsResponse(results=results)


def delete(cluster: Cluster, *group_ids: str) -> dict[str, KafkaError | None]:
    anything: Any = cluster
    return asyncio.run(Groups(anything).delete(group_ids))


def test_groups_of_one_coordinator_are_deleted_together() -> None:
    cluster = Cluster({"a": 1, "b": 2, "c": 1}, {})
    assert delete(cluster, "a", "b", "c") == {"a": None, "b": None, "c": None}
    assert sorted(cluster.requests) == [(1, ["a", "c"]), (2, ["b"])]


def test_groups_that_have_moved_apart_are_each_deleted_once() -> None:
    cluster = Cluster({"a": 2, "b": 3, "c": 1}, {"a": 1, "b": 1, "c": 1})
    assert delete(cluster, "a", "b", "c") == {"a": None, "b": None, "c": None}
    assert cluster.deleted == {"a", "b", "c"}

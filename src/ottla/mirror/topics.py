"""Topics of the target follow those of the source: they are created, grow, and take over settings and rights."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping

from ottla.client.admin.acls import Acl, Acls, AclSelection
from ottla.client.admin.configs import (
    ConfigChange,
    ConfigEntry,
    ConfigOperation,
    ConfigResource,
    Configs,
    ConfigSource,
    ResourceType,
)
from ottla.client.admin.offsets import EARLIEST, Offsets
from ottla.client.admin.topics import NewTopic, Topics
from ottla.client.cluster import Cluster
from ottla.client.metadata import TopicInfo
from ottla.mirror.copying.pairs import Pair, find_pairs, is_copied
from ottla.mirror.settings import FlowSettings, MirrorError, OffsetMode
from ottla.model.access import Operation, PatternType, Permission
from ottla.model.access import ResourceType as AclResourceType
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ids import TopicPartition

__all__ = ["TopicSync", "copied_acls"]

logger = logging.getLogger("ottla.mirror.topics")

MIRROR_NAME = "ottla.mirror.name"
# Requests for this many topics at once.
_TOPICS_AT_ONCE = 200


class TopicSync:
    """The topics of one flow."""

    def __init__(self, flow: FlowSettings, source: Cluster, target: Cluster) -> None:
        self._flow = flow
        self._source = source
        self._target = target

    async def refresh(self) -> frozenset[tuple[object, ...]]:
        """Creates what is missing at the target, and adds partitions.

        Returns the topics of both sides as they were found, with ids and numbers of partitions.
        """
        flow = self._flow
        source = await self._copied()
        target = await Topics(self._target).all()
        missing = [name for name in source if self._name(name) not in target]
        for names in _portions(missing):
            await self._create({name: source[name] for name in names})
        grown = {
            self._name(name): len(info.partitions)
            for name, info in source.items()
            if (copy := target.get(self._name(name))) is not None and len(copy.partitions) < len(info.partitions)
        }
        if grown:
            for name, error in (await Topics(self._target).grow(grown)).items():
                if error is not None:
                    logger.warning("%s: partitions of %s cannot be added: %s", flow.name, name, error)
        return frozenset(
            (name, info.topic_id, len(info.partitions), *_identity_of(target.get(self._name(name))))
            for name, info in source.items()
        )

    async def sync_configs(self) -> None:
        """Applies the settings that topics of the source have of their own to the copies."""
        source = await self._copied()
        for names in _portions(source):
            wanted = await self._configs(self._source, names)
            copies = {self._name(name): name for name in names}
            present = await self._configs(self._target, copies)
            changes: dict[ConfigResource, list[ConfigChange]] = {}
            for copy, name in copies.items():
                if copy not in present or name not in wanted:
                    continue
                own = self._chosen(wanted[name])
                changed = [ConfigChange(key, value) for key, value in own.items() if present[copy].get(key) != value]
                removed = [
                    ConfigChange(key, None, ConfigOperation.DELETE)
                    for key in self._chosen(present[copy])
                    if key not in own
                ]
                if changed or removed:
                    changes[ConfigResource(ResourceType.TOPIC, copy)] = [*changed, *removed]
            if changes:
                for resource, error in (await Configs(self._target).alter(dict(changes))).items():
                    if error is not None:
                        logger.warning(
                            "%s: settings of %s cannot be changed: %s", self._flow.name, resource.name, error
                        )

    async def sync_acls(self) -> None:
        """Rights to read a topic hold for its copy. Rights to write do not, since the mirror writes it."""
        try:
            acls = await Acls(self._source).describe(AclSelection(resource_type=AclResourceType.TOPIC))
        except KafkaError as error:
            if error.code is ErrorCode.SECURITY_DISABLED:
                return
            raise
        topics = await self._copied()
        wanted = copied_acls(acls, topics, self._name)
        if not wanted:
            return
        present = set(await Acls(self._target).describe(AclSelection(resource_type=AclResourceType.TOPIC)))
        missing = [acl for acl in wanted if acl not in present]
        if missing:
            await Acls(self._target).create(missing)

    async def sync_starts(self) -> None:
        """In an exact copy, records that the source has deleted are deleted as well."""
        source = await self._copied()
        places = {
            TopicPartition(name, number): TopicPartition(self._name(name), number)
            for name, info in source.items()
            for number in info.partitions
        }
        starts = await Offsets(self._source).find(dict.fromkeys(places, EARLIEST))
        copies = await Offsets(self._target).find(dict.fromkeys(places.values(), EARLIEST))
        before = {}
        for place, copy in places.items():
            start, own = starts.get(place), copies.get(copy)
            if start is None or own is None or isinstance(start, KafkaError) or isinstance(own, KafkaError):
                continue
            if start.offset > own.offset > 0 or (start.offset > 0 and own.offset == 0):
                before[copy] = start.offset
        are_copies = await self.exact_copies({copy.topic for copy in before})
        before = {copy: offset for copy, offset in before.items() if are_copies.get(copy.topic)}
        if before:
            # An error does no harm: the copy has not come so far, or is compacted. The next round tries again.
            await Offsets(self._target).delete_records(before)

    async def pairs(self) -> list[Pair]:
        """All partitions that exist on both sides."""
        source, target = await asyncio.gather(Topics(self._source).all(), Topics(self._target).all())
        return find_pairs(self._flow, source, target, worker=0, workers=1)

    async def exact_copies(self, topics: Iterable[str]) -> dict[str, bool]:
        """Whether topics of the target are exact copies of this flow. Other topics belong to their users.

        A topic whose settings the target does not return is left out.
        """
        return {name: owner == self._flow.name for name, owner in (await self.mirror_names(topics)).items()}

    async def mirror_names(self, topics: Iterable[str]) -> dict[str, str]:
        """The mirrors that write topics of the target; an empty name stands for an ordinary topic."""
        owners: dict[str, str] = {}
        for names in _portions(topics):
            for name, own in (await self._configs(self._target, names)).items():
                owners[name] = own.get(MIRROR_NAME) or ""
        return owners

    # Internals.

    def _name(self, topic: str) -> str:
        return self._flow.policy.target_name(self._flow.source, topic)

    async def _copied(self) -> dict[str, TopicInfo]:
        topics = await Topics(self._source).all()
        return {
            name: info
            for name, info in topics.items()
            if info.error is None and is_copied(self._flow, name, is_internal=info.is_internal)
        }

    async def _create(self, topics: Mapping[str, TopicInfo]) -> None:
        flow = self._flow
        configs = await self._configs(self._source, topics)
        new = []
        for name, info in topics.items():
            own = self._chosen(configs.get(name, {}))
            if flow.offset_mode is OffsetMode.EXACT:
                own[MIRROR_NAME] = flow.name
            new.append(
                NewTopic(
                    name=self._name(name),
                    partitions=len(info.partitions),
                    replication_factor=flow.replication_factor,
                    configs=own,
                )
            )
        for name, result in (await Topics(self._target).create(new)).items():
            if not isinstance(result, KafkaError):
                logger.info("%s: topic %s was created", flow.name, name)
            elif result.code is ErrorCode.INVALID_CONFIG and flow.offset_mode is OffsetMode.EXACT:
                raise MirrorError(
                    f"{flow.name}: the target cannot keep offsets ({result.message}). ottla.offsets = exact needs a "
                    "cluster of Ottla as its target; use translated."
                )
            elif result.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                logger.warning("%s: topic %s cannot be created: %s", flow.name, name, result)

    def _chosen(self, configs: Mapping[str, str | None]) -> dict[str, str]:
        return {
            key: value
            for key, value in configs.items()
            if value is not None and key != MIRROR_NAME and self._flow.configs.matches(key)
        }

    async def _configs(self, cluster: Cluster, names: Iterable[str]) -> dict[str, dict[str, str | None]]:
        """The settings that topics have of their own."""
        resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
        described = await Configs(cluster).describe(resources)
        return {
            resource.name: {entry.name: entry.value for entry in entries if _is_own(entry)}
            for resource, entries in described.items()
            if not isinstance(entries, KafkaError)
        }


def _identity_of(copy: TopicInfo | None) -> tuple[object, ...]:
    return () if copy is None else (copy.topic_id, len(copy.partitions))


def _is_own(entry: ConfigEntry) -> bool:
    return entry.source is ConfigSource.DYNAMIC_TOPIC_CONFIG


def copied_acls(acls: Iterable[Acl], topics: Iterable[str], name: object) -> list[Acl]:
    """The rights on copies, as MirrorMaker 2 derives them: without Write, and Read in the place of All."""
    assert callable(name)
    known = set(topics)
    copied = []
    for acl in acls:
        is_allowed = acl.permission is Permission.ALLOW
        if acl.pattern_type is not PatternType.LITERAL or acl.resource_name not in known:
            continue
        if is_allowed and acl.operation is Operation.WRITE:
            continue
        operation = Operation.READ if is_allowed and acl.operation is Operation.ALL else acl.operation
        copied.append(acl._replace(resource_name=name(acl.resource_name), operation=operation))
    return copied


def _portions(names: Iterable[str]) -> list[list[str]]:
    ordered = sorted(names)
    return [ordered[start : start + _TOPICS_AT_ONCE] for start in range(0, len(ordered), _TOPICS_AT_ONCE)]

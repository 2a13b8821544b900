"""Checks that produced records name schemas of the registry (`confluent.value.schema.validation` of their topic).

The subjects of a schema are requested once and cached. A batch whose schemas are all cached is checked at once; another
batch waits in the queue of its partition while a worker asks the registry. Before a batch is refused the registry is
asked again, because the schema may have been registered meanwhile; a refusal is cached for a moment only. While no
registry answers, schemas that were accepted before stay accepted.
"""

from __future__ import annotations

import json
import logging
import uuid
from collections import OrderedDict
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from ottla.model.deferred import Deferred
from ottla.model.errors import ErrorCode, KafkaError
from ottla.model.ports import Lane
from ottla.records.errors import InvalidRecords, RecordError
from ottla.records.schema_tags import SchemaRules, SchemaTags, Tag

if TYPE_CHECKING:
    from ottla.model.ports import World

__all__ = ["RegistryDown", "SchemaChecks"]

logger = logging.getLogger(__name__)

# The answer to a path, or None for 404. Blocks; raises OSError with a sentence.
AskRegistry = Callable[[str], bytes | None]

# Schemas do not change, but subjects are deleted.
_ACCEPTED_SECONDS = 300.0
_REFUSED_SECONDS = 1.0
# The time without questions after one that failed.
_PAUSE_SECONDS = 1.0
_REMEMBERED_MAX = 100_000
_REFUSED_MAX = 10_000
# Of one batch, at the same time and in all. A batch with an invalid schema is refused after the first hundred, so only
# schemas of the registry can cause more questions.
_QUESTIONS_AT_ONCE = 100
_QUESTIONS_MAX = 5_000
_ERRORS_MAX = 10_000


class RegistryDown(KafkaError):
    """Producers retry."""

    def __init__(self, reason: str) -> None:
        super().__init__(ErrorCode.REQUEST_TIMED_OUT, f"The schema registry cannot be asked: {reason}.")


class _Answer(NamedTuple):
    at: float
    subjects: frozenset[str]


class SchemaChecks:
    def __init__(self, world: World, ask: AskRegistry | None) -> None:
        self._clock = world.clock
        self._workers = world.workers.lane(Lane.REGISTRY)
        self._ask = ask
        self._answers: OrderedDict[Tag, _Answer] = OrderedDict()
        self._refused: dict[tuple[str, bool, Tag], float] = {}
        self._asking: dict[Tag, Deferred[None]] = {}
        self._failed_at = float("-inf")
        self._failure = ""

    def check(self, topic: str, rules: SchemaRules, tags: SchemaTags) -> Deferred[None] | None:
        """None if the records may be appended; later if the registry is asked first. Raises KafkaError."""
        if self._ask is None:
            raise KafkaError(
                ErrorCode.INVALID_CONFIG,
                f"The topic {topic} checks schemas, but this broker has no confluent.schema.registry.url.",
            )
        questions = self._questions(topic, rules, tags)
        if not questions:
            self._refuse_invalid(topic, rules, tags)
            return None
        if len(questions) > _QUESTIONS_MAX:
            raise InvalidRecords(f"The batch names more than {_QUESTIONS_MAX} schemas that are not known")
        if self._is_paused():
            if not all(questions.values()):
                raise RegistryDown(self._failure)
            self._refuse_invalid(topic, rules, tags)
            return None
        return self._ask_in_portions(topic, rules, tags, list(questions.items()))

    def _ask_in_portions(
        self, topic: str, rules: SchemaRules, tags: SchemaTags, questions: list[tuple[Tag, bool]]
    ) -> Deferred[None]:
        portion, remaining = questions[:_QUESTIONS_AT_ONCE], questions[_QUESTIONS_AT_ONCE:]
        answered = _all([self._answer_to(tag, was_accepted=accepted) for tag, accepted in portion])
        if not remaining:
            return answered.then(lambda _: self._refuse_invalid(topic, rules, tags))
        asked_tags = {tag for tag, _ in portion}
        answered_tags = {
            place: indexes for place, indexes in tags.items() if place[1] is None or place[1] in asked_tags
        }

        def proceed(_: None) -> Deferred[None]:
            self._refuse_invalid(topic, rules, answered_tags)
            return self._ask_in_portions(topic, rules, tags, remaining)

        return answered.and_then(proceed)

    def _answer_to(self, tag: Tag, *, was_accepted: bool) -> Deferred[None]:
        answer = self._asking.get(tag) or self._begin_question(tag)
        return answer.recover(RegistryDown, lambda _: None) if was_accepted else answer

    def _questions(self, topic: str, rules: SchemaRules, tags: SchemaTags) -> dict[Tag, bool]:
        """The tags without a recent answer, and whether an older answer accepts them."""
        now = self._clock.monotonic()
        questions: dict[Tag, bool] = {}
        for is_key, tag in tags:
            if tag is None:
                continue
            answer = self._answers.get(tag)
            is_accepted = answer is not None and _is_valid(topic, rules, is_key, answer.subjects)
            if answer is not None and is_accepted:
                if now - answer.at < _ACCEPTED_SECONDS:
                    continue
            elif now - self._refused.get((topic, is_key, tag), float("-inf")) < _REFUSED_SECONDS:
                continue
            questions[tag] = is_accepted and questions.get(tag, True)
        return questions

    def _refuse_invalid(self, topic: str, rules: SchemaRules, tags: SchemaTags) -> None:
        """Raises InvalidRecords with every record whose schema is not registered for the topic."""
        errors: list[RecordError] = []
        for (is_key, tag), indexes in tags.items():
            side = "key" if is_key else "value"
            answer = self._answers.get(tag)
            if tag is None:
                reason = f"The {side} names no schema."
            elif answer is None or not answer.subjects:
                reason = f"The schema {_named(tag)} of the {side} is not in the registry."
            elif not _is_valid(topic, rules, is_key, answer.subjects):
                reason = f"The schema {_named(tag)} of the {side} is not registered for the topic."
            else:
                continue
            if tag is not None:
                self._remember_refusal((topic, is_key, tag))
            errors += [RecordError(index, reason) for index in indexes[:_ERRORS_MAX]]
        if errors:
            errors.sort()
            raise InvalidRecords(
                f"One or more records do not have a schema that is registered for {topic}",
                record_errors=errors[:_ERRORS_MAX],
            )

    def _remember_refusal(self, place: tuple[str, bool, Tag]) -> None:
        now = self._clock.monotonic()
        if len(self._refused) >= _REFUSED_MAX:
            self._refused = {key: at for key, at in self._refused.items() if now - at < _REFUSED_SECONDS}
        # A cached refusal that is repeated keeps its time.
        if now - self._refused.get(place, float("-inf")) >= _REFUSED_SECONDS:
            self._refused[place] = now

    def _is_paused(self) -> bool:
        return self._clock.monotonic() - self._failed_at < _PAUSE_SECONDS

    def _begin_question(self, tag: Tag) -> Deferred[None]:
        finished: Deferred[None] = Deferred()
        self._asking[tag] = finished

        def on_answer(answer: Deferred[frozenset[str]]) -> None:
            del self._asking[tag]
            if answer.error is not None:
                if not self._is_paused():
                    self._failed_at, self._failure = self._clock.monotonic(), str(answer.error)
                    logger.warning("the schema registry cannot be asked: %s", answer.error)
                finished.fail(RegistryDown(self._failure))
                return
            self._answers[tag] = _Answer(self._clock.monotonic(), answer.result())
            self._answers.move_to_end(tag)
            if len(self._answers) > _REMEMBERED_MAX:
                self._answers.popitem(last=False)
            finished.resolve(None)

        self._workers.submit(self._subjects_of, tag).when_done(on_answer)
        return finished

    def _subjects_of(self, tag: Tag) -> frozenset[str]:
        """The subjects of a schema; none if it does not exist. Runs on a worker. Raises OSError."""
        assert self._ask is not None
        if self._is_paused():
            # A registry that does not answer would take the worker for the timeout of every question.
            raise OSError(self._failure)
        try:
            if isinstance(tag, bytes):
                places = self._ask(f"/schemas/guids/{_named(tag)}/ids")
                ids = (
                    []
                    if places is None
                    else [(int(place["id"]), str(place["context"])) for place in json.loads(places)]
                )
            else:
                assert tag is not None
                ids = [(tag, ".")]
            subjects: set[str] = set()
            for schema_id, context in ids:
                suffix = "" if context == "." else f"?subject=:{context}:"
                answer = self._ask(f"/schemas/ids/{schema_id}/subjects{suffix}")
                subjects.update([] if answer is None else json.loads(answer))
        except (ValueError, KeyError, TypeError) as error:
            raise OSError(f"its answer cannot be read ({error!r})") from None
        return frozenset(subjects)


def _is_valid(topic: str, rules: SchemaRules, is_key: bool, subjects: frozenset[str]) -> bool:
    """Checks the subjects. Only schemas have names of records, so strategies with it are checked for the topic only."""
    strategy = (rules.key_strategy if is_key else rules.value_strategy).rpartition(".")[2]
    bare = {subject[1:].partition(":")[2] if subject.startswith(":.") else subject for subject in subjects}
    if strategy == "RecordNameStrategy":
        return bool(bare)
    if strategy == "TopicRecordNameStrategy":
        return any(subject.startswith(f"{topic}-") for subject in bare)
    return f"{topic}-{'key' if is_key else 'value'}" in bare


def _named(tag: Tag) -> str:
    return str(uuid.UUID(bytes=tag)) if isinstance(tag, bytes) else str(tag)


def _all(waiting: list[Deferred[None]]) -> Deferred[None]:
    """Resolves with the last, fails with the first that fails."""
    if len(waiting) == 1:
        return waiting[0].then(lambda _: None)
    return waiting[0].and_then(lambda _: _all(waiting[1:]))

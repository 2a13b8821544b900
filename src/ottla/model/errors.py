"""The error codes of the protocol, and the exception that carries an error code.

A protocol error is a response, not a failure of the node. Code that detects it raises `KafkaError` with a message about
this request, and the API module puts the code, and the message if the response has a field for it, into the response.
Names, numbers and retriability are those of Apache Kafka 4.4.
"""

from __future__ import annotations

from enum import IntEnum

__all__ = ["ErrorCode", "KafkaError"]

_FINAL = False
_RETRIABLE = True


class ErrorCode(IntEnum):
    """An error code of the protocol; `message` is its default message."""

    retriable: bool
    message: str

    # Members pass all three values. The defaults let `ErrorCode(5)`, which looks up a member, pass the type checker.
    def __new__(cls, code: int, retriable: bool = False, message: str = "") -> ErrorCode:
        member = int.__new__(cls, code)
        member._value_ = code
        member.retriable = retriable
        member.message = message
        return member

    @classmethod
    def told(cls, code: int) -> ErrorCode:
        """The member for a code from another node; UNKNOWN_SERVER_ERROR for a code of a newer release."""
        member: ErrorCode | None = cls._value2member_map_.get(code)  # type: ignore[assignment]
        return cls.UNKNOWN_SERVER_ERROR if member is None else member

    UNKNOWN_SERVER_ERROR = -1, _FINAL, "The broker failed unexpectedly while it handled the request."
    NONE = 0, _FINAL, "No error."
    OFFSET_OUT_OF_RANGE = 1, _FINAL, "The requested offset is outside the range of the partition's log."
    CORRUPT_MESSAGE = 2, _RETRIABLE, "The records are damaged: checksum, size or structure is wrong."
    UNKNOWN_TOPIC_OR_PARTITION = 3, _RETRIABLE, "This broker knows no such topic or partition."
    INVALID_FETCH_SIZE = 4, _FINAL, "The fetch size must not be negative."
    LEADER_NOT_AVAILABLE = 5, _RETRIABLE, "The partition has no leader at the moment."
    NOT_LEADER_OR_FOLLOWER = 6, _RETRIABLE, "This broker does not lead the partition, or holds no replica of it."
    REQUEST_TIMED_OUT = 7, _RETRIABLE, "The request was not completed in time."
    BROKER_NOT_AVAILABLE = 8, _FINAL, "The broker cannot be reached."
    REPLICA_NOT_AVAILABLE = 9, _RETRIABLE, "The replica is not available on this broker."
    MESSAGE_TOO_LARGE = 10, _FINAL, "The records are larger than the topic accepts."
    STALE_CONTROLLER_EPOCH = 11, _FINAL, "A newer controller has taken over."
    OFFSET_METADATA_TOO_LARGE = 12, _FINAL, "The metadata of the committed offset is too long."
    NETWORK_EXCEPTION = 13, _RETRIABLE, "The connection broke before an answer arrived."
    COORDINATOR_LOAD_IN_PROGRESS = 14, _RETRIABLE, "The coordinator is still loading its state."
    COORDINATOR_NOT_AVAILABLE = 15, _RETRIABLE, "There is no coordinator at the moment."
    NOT_COORDINATOR = 16, _RETRIABLE, "Another broker coordinates this group or transactional id."
    INVALID_TOPIC_EXCEPTION = 17, _FINAL, "The topic name is not allowed."
    RECORD_LIST_TOO_LARGE = 18, _FINAL, "The batch is larger than a log segment can be."
    NOT_ENOUGH_REPLICAS = 19, _RETRIABLE, "Fewer replicas are in sync than the topic demands; nothing was written."
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20, _RETRIABLE, "The records were written, but to too few in-sync replicas."
    INVALID_REQUIRED_ACKS = 21, _FINAL, "acks must be 0, 1 or -1 (all)."
    ILLEGAL_GENERATION = 22, _FINAL, "The member's generation is not the group's current generation."
    INCONSISTENT_GROUP_PROTOCOL = 23, _FINAL, "The member shares no protocol with the rest of the group."
    INVALID_GROUP_ID = 24, _FINAL, "The group id is not allowed."
    UNKNOWN_MEMBER_ID = 25, _FINAL, "The group has no member of this id."
    INVALID_SESSION_TIMEOUT = 26, _FINAL, "The session timeout is outside the bounds this broker sets for groups."
    REBALANCE_IN_PROGRESS = 27, _FINAL, "The group is rebalancing: the member has to join again."
    INVALID_COMMIT_OFFSET_SIZE = 28, _FINAL, "The commit does not fit into one record."
    TOPIC_AUTHORIZATION_FAILED = 29, _FINAL, "The principal may not do this with the topic."
    GROUP_AUTHORIZATION_FAILED = 30, _FINAL, "The principal may not do this with the group."
    CLUSTER_AUTHORIZATION_FAILED = 31, _FINAL, "The principal may not do this with the cluster."
    INVALID_TIMESTAMP = 32, _FINAL, "A record's timestamp is outside the range the topic accepts."
    UNSUPPORTED_SASL_MECHANISM = 33, _FINAL, "The listener does not offer this SASL mechanism."
    ILLEGAL_SASL_STATE = 34, _FINAL, "This request is not allowed at this point of the authentication."
    UNSUPPORTED_VERSION = 35, _FINAL, "The broker does not support this version of the request."
    TOPIC_ALREADY_EXISTS = 36, _FINAL, "A topic of this name exists already."
    INVALID_PARTITIONS = 37, _FINAL, "The number of partitions is not allowed."
    INVALID_REPLICATION_FACTOR = 38, _FINAL, "The replication factor is below 1 or above the number of brokers."
    INVALID_REPLICA_ASSIGNMENT = 39, _FINAL, "The assignment of replicas to brokers is not valid."
    INVALID_CONFIG = 40, _FINAL, "A configuration value is not valid."
    NOT_CONTROLLER = 41, _RETRIABLE, "Another node is the active controller."
    INVALID_REQUEST = 42, _FINAL, "The request is inconsistent or incomplete."
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43, _FINAL, "The old message format of the log does not support this."
    POLICY_VIOLATION = 44, _FINAL, "A policy of the cluster forbids this."
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45, _FINAL, "The batch does not follow the producer's last sequence number."
    DUPLICATE_SEQUENCE_NUMBER = 46, _FINAL, "A batch of this sequence number was written before."
    INVALID_PRODUCER_EPOCH = 47, _FINAL, "The producer's epoch is older than the one known to the broker."
    INVALID_TXN_STATE = 48, _FINAL, "The transaction is in a state that does not allow this."
    INVALID_PRODUCER_ID_MAPPING = 49, _FINAL, "The producer id does not belong to this transactional id."
    INVALID_TRANSACTION_TIMEOUT = 50, _FINAL, "The transaction timeout is longer than this broker allows."
    CONCURRENT_TRANSACTIONS = 51, _RETRIABLE, "The previous change of this transaction is still being completed."
    TRANSACTION_COORDINATOR_FENCED = 52, _FINAL, "A newer transaction coordinator has taken over."
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, _FINAL, "The principal may not use this transactional id."
    SECURITY_DISABLED = 54, _FINAL, "The security feature is not enabled on this broker."
    OPERATION_NOT_ATTEMPTED = 55, _FINAL, "Another part of the request failed, so this part was not attempted."
    KAFKA_STORAGE_ERROR = 56, _RETRIABLE, "The disk of the partition failed or is full."
    LOG_DIR_NOT_FOUND = 57, _FINAL, "The broker has no such log directory."
    SASL_AUTHENTICATION_FAILED = 58, _FINAL, "The credentials were refused."
    UNKNOWN_PRODUCER_ID = 59, _FINAL, "The partition has no state of this producer."
    REASSIGNMENT_IN_PROGRESS = 60, _FINAL, "The partition is being reassigned."
    DELEGATION_TOKEN_AUTH_DISABLED = 61, _FINAL, "Delegation tokens are not enabled."
    DELEGATION_TOKEN_NOT_FOUND = 62, _FINAL, "There is no such delegation token."
    DELEGATION_TOKEN_OWNER_MISMATCH = 63, _FINAL, "The principal neither owns nor may renew the token."
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64, _FINAL, "Tokens cannot be requested over this kind of connection."
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65, _FINAL, "The principal may not do this with the token."
    DELEGATION_TOKEN_EXPIRED = 66, _FINAL, "The delegation token has expired."
    INVALID_PRINCIPAL_TYPE = 67, _FINAL, "This type of principal is not supported here."
    NON_EMPTY_GROUP = 68, _FINAL, "The group still has members."
    GROUP_ID_NOT_FOUND = 69, _FINAL, "There is no group of this id."
    FETCH_SESSION_ID_NOT_FOUND = 70, _RETRIABLE, "The broker has no fetch session of this id."
    INVALID_FETCH_SESSION_EPOCH = 71, _RETRIABLE, "The request does not follow the last one of its fetch session."
    LISTENER_NOT_FOUND = 72, _RETRIABLE, "The leader has no listener with the name of the listener of this request."
    TOPIC_DELETION_DISABLED = 73, _FINAL, "Topic deletion is disabled."
    FENCED_LEADER_EPOCH = 74, _RETRIABLE, "The request names an older leader epoch than the broker's."
    UNKNOWN_LEADER_EPOCH = 75, _RETRIABLE, "The request names a newer leader epoch than the broker's."
    UNSUPPORTED_COMPRESSION_TYPE = 76, _FINAL, "The client's version of the request cannot carry this compression."
    STALE_BROKER_EPOCH = 77, _FINAL, "The broker has registered again since it sent this."
    OFFSET_NOT_AVAILABLE = 78, _RETRIABLE, "The new leader's high watermark has not caught up yet."
    MEMBER_ID_REQUIRED = 79, _FINAL, "The member has to join again with the id it was just given."
    PREFERRED_LEADER_NOT_AVAILABLE = 80, _RETRIABLE, "The preferred replica cannot lead at the moment."
    GROUP_MAX_SIZE_REACHED = 81, _FINAL, "The group has the maximum number of members."
    FENCED_INSTANCE_ID = 82, _FINAL, "Another member with the same instance id has joined."
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, _RETRIABLE, "No replica that may lead is available."
    ELECTION_NOT_NEEDED = 84, _RETRIABLE, "The partition already has the requested leader."
    NO_REASSIGNMENT_IN_PROGRESS = 85, _FINAL, "The partition is not being reassigned."
    GROUP_SUBSCRIBED_TO_TOPIC = 86, _FINAL, "The group is subscribed to the topic, so its offsets cannot be deleted."
    INVALID_RECORD = 87, _FINAL, "The broker refused a record of the batch."
    UNSTABLE_OFFSET_COMMIT = 88, _RETRIABLE, "A transaction that commits these offsets is still open."
    THROTTLING_QUOTA_EXCEEDED = 89, _RETRIABLE, "The quota for this kind of request is used up."
    PRODUCER_FENCED = 90, _FINAL, "A newer producer uses the same transactional id."
    RESOURCE_NOT_FOUND = 91, _FINAL, "The request names a resource that does not exist."
    DUPLICATE_RESOURCE = 92, _FINAL, "The request names the same resource twice."
    UNACCEPTABLE_CREDENTIAL = 93, _FINAL, "The credential does not fulfil the requirements."
    INCONSISTENT_VOTER_SET = 94, _FINAL, "Sender and receiver have different voter sets."
    INVALID_UPDATE_VERSION = 95, _FINAL, "The update is based on another version than the current one."
    FEATURE_UPDATE_FAILED = 96, _FINAL, "The features could not be updated."
    PRINCIPAL_DESERIALIZATION_FAILURE = 97, _FINAL, "The forwarded principal could not be read."
    SNAPSHOT_NOT_FOUND = 98, _FINAL, "There is no such snapshot."
    POSITION_OUT_OF_RANGE = 99, _FINAL, "The position is outside the snapshot."
    UNKNOWN_TOPIC_ID = 100, _RETRIABLE, "This broker knows no topic of this id."
    DUPLICATE_BROKER_REGISTRATION = 101, _FINAL, "A live broker holds this id already."
    BROKER_ID_NOT_REGISTERED = 102, _FINAL, "No broker of this id is registered."
    INCONSISTENT_TOPIC_ID = 103, _RETRIABLE, "The log belongs to a topic of another id."
    INCONSISTENT_CLUSTER_ID = 104, _FINAL, "The sender belongs to another cluster."
    TRANSACTIONAL_ID_NOT_FOUND = 105, _FINAL, "There is no such transactional id."
    FETCH_SESSION_TOPIC_ID_ERROR = 106, _RETRIABLE, "The fetch session mixes topic names with topic ids."
    INELIGIBLE_REPLICA = 107, _FINAL, "The replica may not join the in-sync set."
    NEW_LEADER_ELECTED = 108, _FINAL, "The change was made, and another replica is the leader now."
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, _FINAL, "The offset is held by remote storage only."
    FENCED_MEMBER_EPOCH = 110, _FINAL, "The member's epoch was fenced by the coordinator: it has to join again."
    UNRELEASED_INSTANCE_ID = 111, _FINAL, "A live member still holds this instance id."
    UNSUPPORTED_ASSIGNOR = 112, _FINAL, "The group's coordinator does not know this assignor."
    STALE_MEMBER_EPOCH = 113, _FINAL, "The member has to retry with the epoch of its next heartbeat."
    MISMATCHED_ENDPOINT_TYPE = 114, _FINAL, "The request is for another kind of node than this endpoint serves."
    UNSUPPORTED_ENDPOINT_TYPE = 115, _FINAL, "Endpoints of this type are not known."
    UNKNOWN_CONTROLLER_ID = 116, _FINAL, "There is no controller of this id."
    UNKNOWN_SUBSCRIPTION_ID = 117, _FINAL, "The client's telemetry subscription is out of date."
    TELEMETRY_TOO_LARGE = 118, _FINAL, "The telemetry is larger than the broker accepts."
    INVALID_REGISTRATION = 119, _FINAL, "The controller refused the registration."
    TRANSACTION_ABORTABLE = 120, _FINAL, "The transaction failed and has to be aborted."
    INVALID_RECORD_STATE = 121, _FINAL, "The record is not acquired by this member any more."
    SHARE_SESSION_NOT_FOUND = 122, _RETRIABLE, "The broker has no share session of this member."
    INVALID_SHARE_SESSION_EPOCH = 123, _RETRIABLE, "The request does not follow the last one of its share session."
    FENCED_STATE_EPOCH = 124, _FINAL, "The share coordinator holds a newer state epoch."
    INVALID_VOTER_KEY = 125, _FINAL, "The voter's key is not the receiver's."
    DUPLICATE_VOTER = 126, _FINAL, "The voter is in the set already."
    VOTER_NOT_FOUND = 127, _FINAL, "The voter is not in the set."
    INVALID_REGULAR_EXPRESSION = 128, _FINAL, "The regular expression cannot be compiled."
    REBOOTSTRAP_REQUIRED = 129, _FINAL, "The client has to bootstrap again."
    STREAMS_INVALID_TOPOLOGY = 130, _FINAL, "The topology is not valid."
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, _FINAL, "The topology's epoch is not valid."
    STREAMS_TOPOLOGY_FENCED = 132, _FINAL, "The topology's epoch is outdated."
    SHARE_SESSION_LIMIT_REACHED = 133, _RETRIABLE, "The broker has the maximum number of share sessions."
    GROUP_DELETION_FAILED = 134, _FINAL, "The group could not be deleted completely."
    STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED = 135, _FINAL, "The description of the topology could not be stored."
    CONTROLLER_ID_NOT_REGISTERED = 136, _FINAL, "No controller of this id is registered."


# A message may quote a name of 32,767 characters from the request, many times in one answer, and a string of the
# protocol is no longer than that.
MESSAGE_LENGTH_MAX = 1_000


class KafkaError(Exception):
    """A protocol error, raised to become an error response."""

    def __init__(self, code: ErrorCode, message: str | None = None) -> None:
        self.code = code
        self.message = code.message if message is None else message
        if len(self.message) > MESSAGE_LENGTH_MAX:
            self.message = f"{self.message[:MESSAGE_LENGTH_MAX]}..."
        super().__init__(code, self.message)

    def __str__(self) -> str:
        return f"{self.code.name}: {self.message}"

    def forget_traceback(self) -> None:
        """Must be called if the error is kept as an answer.

        The frames of the traceback, and those that called them, usually refer to the object that keeps the error.
        Without this, a refused request would leave a reference cycle, with its elements, for the garbage collector.
        """
        self.__traceback__ = self.__context__ = self.__cause__ = None

import datetime

from google.protobuf import timestamp_pb2 as _timestamp_pb2
from sidecall.v1 import tool_service_pb2 as _tool_service_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Pending(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PENDING_UNSPECIFIED: _ClassVar[Pending]
    PENDING_NOT_RUN: _ClassVar[Pending]
    PENDING_IN_PROGRESS: _ClassVar[Pending]
    PENDING_DONE: _ClassVar[Pending]
    PENDING_UNKNOWN: _ClassVar[Pending]
PENDING_UNSPECIFIED: Pending
PENDING_NOT_RUN: Pending
PENDING_IN_PROGRESS: Pending
PENDING_DONE: Pending
PENDING_UNKNOWN: Pending

class StartPromptRequest(_message.Message):
    __slots__ = ("conversation_id", "prompt_id", "profile")
    CONVERSATION_ID_FIELD_NUMBER: _ClassVar[int]
    PROMPT_ID_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    conversation_id: str
    prompt_id: str
    profile: str
    def __init__(self, conversation_id: _Optional[str] = ..., prompt_id: _Optional[str] = ..., profile: _Optional[str] = ...) -> None: ...

class StartPromptResponse(_message.Message):
    __slots__ = ("budget",)
    BUDGET_FIELD_NUMBER: _ClassVar[int]
    budget: _tool_service_pb2.Budget
    def __init__(self, budget: _Optional[_Union[_tool_service_pb2.Budget, _Mapping]] = ...) -> None: ...

class EndPromptRequest(_message.Message):
    __slots__ = ("conversation_id", "prompt_id", "exit_reason", "profile")
    CONVERSATION_ID_FIELD_NUMBER: _ClassVar[int]
    PROMPT_ID_FIELD_NUMBER: _ClassVar[int]
    EXIT_REASON_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    conversation_id: str
    prompt_id: str
    exit_reason: str
    profile: str
    def __init__(self, conversation_id: _Optional[str] = ..., prompt_id: _Optional[str] = ..., exit_reason: _Optional[str] = ..., profile: _Optional[str] = ...) -> None: ...

class EndPromptResponse(_message.Message):
    __slots__ = ("budget", "effects", "effects_incomplete")
    BUDGET_FIELD_NUMBER: _ClassVar[int]
    EFFECTS_FIELD_NUMBER: _ClassVar[int]
    EFFECTS_INCOMPLETE_FIELD_NUMBER: _ClassVar[int]
    budget: _tool_service_pb2.Budget
    effects: _containers.RepeatedCompositeFieldContainer[CommittedEffect]
    effects_incomplete: bool
    def __init__(self, budget: _Optional[_Union[_tool_service_pb2.Budget, _Mapping]] = ..., effects: _Optional[_Iterable[_Union[CommittedEffect, _Mapping]]] = ..., effects_incomplete: _Optional[bool] = ...) -> None: ...

class CommittedEffect(_message.Message):
    __slots__ = ("turn_id", "tool_use_id", "prompt_id", "tool_name", "finished_at", "unknown", "undo", "not_undoable", "undone")
    TURN_ID_FIELD_NUMBER: _ClassVar[int]
    TOOL_USE_ID_FIELD_NUMBER: _ClassVar[int]
    PROMPT_ID_FIELD_NUMBER: _ClassVar[int]
    TOOL_NAME_FIELD_NUMBER: _ClassVar[int]
    FINISHED_AT_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_FIELD_NUMBER: _ClassVar[int]
    UNDO_FIELD_NUMBER: _ClassVar[int]
    NOT_UNDOABLE_FIELD_NUMBER: _ClassVar[int]
    UNDONE_FIELD_NUMBER: _ClassVar[int]
    turn_id: str
    tool_use_id: str
    prompt_id: str
    tool_name: str
    finished_at: _timestamp_pb2.Timestamp
    unknown: bool
    undo: PlannedCall
    not_undoable: str
    undone: bool
    def __init__(self, turn_id: _Optional[str] = ..., tool_use_id: _Optional[str] = ..., prompt_id: _Optional[str] = ..., tool_name: _Optional[str] = ..., finished_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., unknown: _Optional[bool] = ..., undo: _Optional[_Union[PlannedCall, _Mapping]] = ..., not_undoable: _Optional[str] = ..., undone: _Optional[bool] = ...) -> None: ...

class PlannedCall(_message.Message):
    __slots__ = ("tool_name", "arguments_json", "conversation_id", "turn_id", "tool_use_id")
    TOOL_NAME_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_JSON_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_ID_FIELD_NUMBER: _ClassVar[int]
    TURN_ID_FIELD_NUMBER: _ClassVar[int]
    TOOL_USE_ID_FIELD_NUMBER: _ClassVar[int]
    tool_name: str
    arguments_json: str
    conversation_id: str
    turn_id: str
    tool_use_id: str
    def __init__(self, tool_name: _Optional[str] = ..., arguments_json: _Optional[str] = ..., conversation_id: _Optional[str] = ..., turn_id: _Optional[str] = ..., tool_use_id: _Optional[str] = ...) -> None: ...

class AppendMessagesRequest(_message.Message):
    __slots__ = ("conversation_id", "expected_version", "provider", "messages_json", "turn_id", "append_id", "prompt_id")
    CONVERSATION_ID_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_VERSION_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_JSON_FIELD_NUMBER: _ClassVar[int]
    TURN_ID_FIELD_NUMBER: _ClassVar[int]
    APPEND_ID_FIELD_NUMBER: _ClassVar[int]
    PROMPT_ID_FIELD_NUMBER: _ClassVar[int]
    conversation_id: str
    expected_version: int
    provider: str
    messages_json: _containers.RepeatedScalarFieldContainer[str]
    turn_id: str
    append_id: str
    prompt_id: str
    def __init__(self, conversation_id: _Optional[str] = ..., expected_version: _Optional[int] = ..., provider: _Optional[str] = ..., messages_json: _Optional[_Iterable[str]] = ..., turn_id: _Optional[str] = ..., append_id: _Optional[str] = ..., prompt_id: _Optional[str] = ...) -> None: ...

class AppendMessagesResponse(_message.Message):
    __slots__ = ("version",)
    VERSION_FIELD_NUMBER: _ClassVar[int]
    version: int
    def __init__(self, version: _Optional[int] = ...) -> None: ...

class LoadConversationRequest(_message.Message):
    __slots__ = ("conversation_id", "from_version", "compact_after_turns", "compact_to_tokens", "compact_before")
    CONVERSATION_ID_FIELD_NUMBER: _ClassVar[int]
    FROM_VERSION_FIELD_NUMBER: _ClassVar[int]
    COMPACT_AFTER_TURNS_FIELD_NUMBER: _ClassVar[int]
    COMPACT_TO_TOKENS_FIELD_NUMBER: _ClassVar[int]
    COMPACT_BEFORE_FIELD_NUMBER: _ClassVar[int]
    conversation_id: str
    from_version: int
    compact_after_turns: int
    compact_to_tokens: int
    compact_before: int
    def __init__(self, conversation_id: _Optional[str] = ..., from_version: _Optional[int] = ..., compact_after_turns: _Optional[int] = ..., compact_to_tokens: _Optional[int] = ..., compact_before: _Optional[int] = ...) -> None: ...

class LoadConversationResponse(_message.Message):
    __slots__ = ("version", "provider", "messages_json", "next_version", "compacted_before")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_JSON_FIELD_NUMBER: _ClassVar[int]
    NEXT_VERSION_FIELD_NUMBER: _ClassVar[int]
    COMPACTED_BEFORE_FIELD_NUMBER: _ClassVar[int]
    version: int
    provider: str
    messages_json: _containers.RepeatedScalarFieldContainer[str]
    next_version: int
    compacted_before: int
    def __init__(self, version: _Optional[int] = ..., provider: _Optional[str] = ..., messages_json: _Optional[_Iterable[str]] = ..., next_version: _Optional[int] = ..., compacted_before: _Optional[int] = ...) -> None: ...

class ResumeConversationRequest(_message.Message):
    __slots__ = ("conversation_id", "compact_after_turns", "compact_to_tokens")
    CONVERSATION_ID_FIELD_NUMBER: _ClassVar[int]
    COMPACT_AFTER_TURNS_FIELD_NUMBER: _ClassVar[int]
    COMPACT_TO_TOKENS_FIELD_NUMBER: _ClassVar[int]
    conversation_id: str
    compact_after_turns: int
    compact_to_tokens: int
    def __init__(self, conversation_id: _Optional[str] = ..., compact_after_turns: _Optional[int] = ..., compact_to_tokens: _Optional[int] = ...) -> None: ...

class ResumeConversationResponse(_message.Message):
    __slots__ = ("version", "provider", "messages_json", "next_version", "pending", "answers_json", "compacted_before", "prompt_id")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_JSON_FIELD_NUMBER: _ClassVar[int]
    NEXT_VERSION_FIELD_NUMBER: _ClassVar[int]
    PENDING_FIELD_NUMBER: _ClassVar[int]
    ANSWERS_JSON_FIELD_NUMBER: _ClassVar[int]
    COMPACTED_BEFORE_FIELD_NUMBER: _ClassVar[int]
    PROMPT_ID_FIELD_NUMBER: _ClassVar[int]
    version: int
    provider: str
    messages_json: _containers.RepeatedScalarFieldContainer[str]
    next_version: int
    pending: _containers.RepeatedCompositeFieldContainer[PendingCall]
    answers_json: _containers.RepeatedScalarFieldContainer[str]
    compacted_before: int
    prompt_id: str
    def __init__(self, version: _Optional[int] = ..., provider: _Optional[str] = ..., messages_json: _Optional[_Iterable[str]] = ..., next_version: _Optional[int] = ..., pending: _Optional[_Iterable[_Union[PendingCall, _Mapping]]] = ..., answers_json: _Optional[_Iterable[str]] = ..., compacted_before: _Optional[int] = ..., prompt_id: _Optional[str] = ...) -> None: ...

class PendingCall(_message.Message):
    __slots__ = ("tool_use_id", "tool_name", "turn_id", "state", "result")
    TOOL_USE_ID_FIELD_NUMBER: _ClassVar[int]
    TOOL_NAME_FIELD_NUMBER: _ClassVar[int]
    TURN_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    tool_use_id: str
    tool_name: str
    turn_id: str
    state: Pending
    result: _tool_service_pb2.ExecuteToolResponse
    def __init__(self, tool_use_id: _Optional[str] = ..., tool_name: _Optional[str] = ..., turn_id: _Optional[str] = ..., state: _Optional[_Union[Pending, str]] = ..., result: _Optional[_Union[_tool_service_pb2.ExecuteToolResponse, _Mapping]] = ...) -> None: ...

class ListConversationsRequest(_message.Message):
    __slots__ = ("page_size", "page_token")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListConversationsResponse(_message.Message):
    __slots__ = ("conversations", "next_page_token")
    CONVERSATIONS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    conversations: _containers.RepeatedCompositeFieldContainer[ConversationSummary]
    next_page_token: str
    def __init__(self, conversations: _Optional[_Iterable[_Union[ConversationSummary, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class ConversationSummary(_message.Message):
    __slots__ = ("conversation_id", "version", "provider", "bytes", "started_at", "updated_at", "open_calls", "damage")
    CONVERSATION_ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    UPDATED_AT_FIELD_NUMBER: _ClassVar[int]
    OPEN_CALLS_FIELD_NUMBER: _ClassVar[int]
    DAMAGE_FIELD_NUMBER: _ClassVar[int]
    conversation_id: str
    version: int
    provider: str
    bytes: int
    started_at: _timestamp_pb2.Timestamp
    updated_at: _timestamp_pb2.Timestamp
    open_calls: int
    damage: str
    def __init__(self, conversation_id: _Optional[str] = ..., version: _Optional[int] = ..., provider: _Optional[str] = ..., bytes: _Optional[int] = ..., started_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., updated_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., open_calls: _Optional[int] = ..., damage: _Optional[str] = ...) -> None: ...

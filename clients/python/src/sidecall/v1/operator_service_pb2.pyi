import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from sidecall.v1 import conversation_service_pb2 as _conversation_service_pb2
from sidecall.v1 import tool_service_pb2 as _tool_service_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Verdict(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    VERDICT_UNSPECIFIED: _ClassVar[Verdict]
    VERDICT_RAN: _ClassVar[Verdict]
    VERDICT_RUNNING: _ClassVar[Verdict]
    VERDICT_NOT_RUN: _ClassVar[Verdict]
    VERDICT_UNKNOWN: _ClassVar[Verdict]
    VERDICT_FORGOTTEN: _ClassVar[Verdict]
    VERDICT_HELD: _ClassVar[Verdict]

class VerificationVerdict(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    VERIFICATION_VERDICT_UNSPECIFIED: _ClassVar[VerificationVerdict]
    VERIFICATION_VERDICT_INCONCLUSIVE: _ClassVar[VerificationVerdict]
    VERIFICATION_VERDICT_DONE: _ClassVar[VerificationVerdict]
    VERIFICATION_VERDICT_NOT_RUN: _ClassVar[VerificationVerdict]
    VERIFICATION_VERDICT_TOO_EARLY: _ClassVar[VerificationVerdict]

class ConversationEventKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CONVERSATION_EVENT_KIND_UNSPECIFIED: _ClassVar[ConversationEventKind]
    CONVERSATION_EVENT_KIND_USER: _ClassVar[ConversationEventKind]
    CONVERSATION_EVENT_KIND_MODEL: _ClassVar[ConversationEventKind]
    CONVERSATION_EVENT_KIND_CALL: _ClassVar[ConversationEventKind]
    CONVERSATION_EVENT_KIND_UNREADABLE: _ClassVar[ConversationEventKind]

class RecordKnown(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RECORD_KNOWN_UNSPECIFIED: _ClassVar[RecordKnown]
    RECORD_KNOWN_FOUND: _ClassVar[RecordKnown]
    RECORD_KNOWN_FORGOTTEN: _ClassVar[RecordKnown]

class ErrorFate(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ERROR_FATE_UNSPECIFIED: _ClassVar[ErrorFate]
    ERROR_FATE_RECOVERED: _ClassVar[ErrorFate]
    ERROR_FATE_GAVE_UP: _ClassVar[ErrorFate]
    ERROR_FATE_OPEN: _ClassVar[ErrorFate]
VERDICT_UNSPECIFIED: Verdict
VERDICT_RAN: Verdict
VERDICT_RUNNING: Verdict
VERDICT_NOT_RUN: Verdict
VERDICT_UNKNOWN: Verdict
VERDICT_FORGOTTEN: Verdict
VERDICT_HELD: Verdict
VERIFICATION_VERDICT_UNSPECIFIED: VerificationVerdict
VERIFICATION_VERDICT_INCONCLUSIVE: VerificationVerdict
VERIFICATION_VERDICT_DONE: VerificationVerdict
VERIFICATION_VERDICT_NOT_RUN: VerificationVerdict
VERIFICATION_VERDICT_TOO_EARLY: VerificationVerdict
CONVERSATION_EVENT_KIND_UNSPECIFIED: ConversationEventKind
CONVERSATION_EVENT_KIND_USER: ConversationEventKind
CONVERSATION_EVENT_KIND_MODEL: ConversationEventKind
CONVERSATION_EVENT_KIND_CALL: ConversationEventKind
CONVERSATION_EVENT_KIND_UNREADABLE: ConversationEventKind
RECORD_KNOWN_UNSPECIFIED: RecordKnown
RECORD_KNOWN_FOUND: RecordKnown
RECORD_KNOWN_FORGOTTEN: RecordKnown
ERROR_FATE_UNSPECIFIED: ErrorFate
ERROR_FATE_RECOVERED: ErrorFate
ERROR_FATE_GAVE_UP: ErrorFate
ERROR_FATE_OPEN: ErrorFate

class ListUnknownRequest(_message.Message):
    __slots__ = ("page_size", "page_token")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListUnknownResponse(_message.Message):
    __slots__ = ("executions", "next_page_token")
    EXECUTIONS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    executions: _containers.RepeatedCompositeFieldContainer[UnknownExecution]
    next_page_token: str
    def __init__(self, executions: _Optional[_Iterable[_Union[UnknownExecution, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class UnknownExecution(_message.Message):
    __slots__ = ("conversation_id", "turn_id", "tool_use_id", "execution", "fingerprint", "verify_with", "verifiable", "error", "tenant")
    CONVERSATION_ID_FIELD_NUMBER: _ClassVar[int]
    TURN_ID_FIELD_NUMBER: _ClassVar[int]
    TOOL_USE_ID_FIELD_NUMBER: _ClassVar[int]
    EXECUTION_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    VERIFY_WITH_FIELD_NUMBER: _ClassVar[int]
    VERIFIABLE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    conversation_id: str
    turn_id: str
    tool_use_id: str
    execution: _tool_service_pb2.Execution
    fingerprint: str
    verify_with: str
    verifiable: bool
    error: _tool_service_pb2.ToolError
    tenant: str
    def __init__(self, conversation_id: _Optional[str] = ..., turn_id: _Optional[str] = ..., tool_use_id: _Optional[str] = ..., execution: _Optional[_Union[_tool_service_pb2.Execution, _Mapping]] = ..., fingerprint: _Optional[str] = ..., verify_with: _Optional[str] = ..., verifiable: _Optional[bool] = ..., error: _Optional[_Union[_tool_service_pb2.ToolError, _Mapping]] = ..., tenant: _Optional[str] = ...) -> None: ...

class FindExecutionsRequest(_message.Message):
    __slots__ = ("key", "value", "label", "label_value", "tool_use_id", "conversation_id", "tool_name", "since", "page_size", "page_token")
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    LABEL_FIELD_NUMBER: _ClassVar[int]
    LABEL_VALUE_FIELD_NUMBER: _ClassVar[int]
    TOOL_USE_ID_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_ID_FIELD_NUMBER: _ClassVar[int]
    TOOL_NAME_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    key: str
    value: str
    label: str
    label_value: str
    tool_use_id: str
    conversation_id: str
    tool_name: str
    since: _timestamp_pb2.Timestamp
    page_size: int
    page_token: str
    def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ..., label: _Optional[str] = ..., label_value: _Optional[str] = ..., tool_use_id: _Optional[str] = ..., conversation_id: _Optional[str] = ..., tool_name: _Optional[str] = ..., since: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class FindExecutionsResponse(_message.Message):
    __slots__ = ("executions", "next_page_token", "remembered_since", "search_keys", "nearest_tool")
    EXECUTIONS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    REMEMBERED_SINCE_FIELD_NUMBER: _ClassVar[int]
    SEARCH_KEYS_FIELD_NUMBER: _ClassVar[int]
    NEAREST_TOOL_FIELD_NUMBER: _ClassVar[int]
    executions: _containers.RepeatedCompositeFieldContainer[FoundExecution]
    next_page_token: str
    remembered_since: _timestamp_pb2.Timestamp
    search_keys: _containers.RepeatedScalarFieldContainer[str]
    nearest_tool: str
    def __init__(self, executions: _Optional[_Iterable[_Union[FoundExecution, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., remembered_since: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., search_keys: _Optional[_Iterable[str]] = ..., nearest_tool: _Optional[str] = ...) -> None: ...

class FoundExecution(_message.Message):
    __slots__ = ("tenant", "conversation_id", "turn_id", "tool_use_id", "verdict", "explanation", "advice", "execution", "details", "idempotency_key", "fingerprint", "replays", "last_replayed_at", "verify_with", "verifiable", "journaled", "damage")
    TENANT_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_ID_FIELD_NUMBER: _ClassVar[int]
    TURN_ID_FIELD_NUMBER: _ClassVar[int]
    TOOL_USE_ID_FIELD_NUMBER: _ClassVar[int]
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    EXPLANATION_FIELD_NUMBER: _ClassVar[int]
    ADVICE_FIELD_NUMBER: _ClassVar[int]
    EXECUTION_FIELD_NUMBER: _ClassVar[int]
    DETAILS_FIELD_NUMBER: _ClassVar[int]
    IDEMPOTENCY_KEY_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    REPLAYS_FIELD_NUMBER: _ClassVar[int]
    LAST_REPLAYED_AT_FIELD_NUMBER: _ClassVar[int]
    VERIFY_WITH_FIELD_NUMBER: _ClassVar[int]
    VERIFIABLE_FIELD_NUMBER: _ClassVar[int]
    JOURNALED_FIELD_NUMBER: _ClassVar[int]
    DAMAGE_FIELD_NUMBER: _ClassVar[int]
    tenant: str
    conversation_id: str
    turn_id: str
    tool_use_id: str
    verdict: Verdict
    explanation: str
    advice: str
    execution: _tool_service_pb2.Execution
    details: CallDetails
    idempotency_key: str
    fingerprint: str
    replays: int
    last_replayed_at: _timestamp_pb2.Timestamp
    verify_with: str
    verifiable: bool
    journaled: bool
    damage: _tool_service_pb2.ToolError
    def __init__(self, tenant: _Optional[str] = ..., conversation_id: _Optional[str] = ..., turn_id: _Optional[str] = ..., tool_use_id: _Optional[str] = ..., verdict: _Optional[_Union[Verdict, str]] = ..., explanation: _Optional[str] = ..., advice: _Optional[str] = ..., execution: _Optional[_Union[_tool_service_pb2.Execution, _Mapping]] = ..., details: _Optional[_Union[CallDetails, _Mapping]] = ..., idempotency_key: _Optional[str] = ..., fingerprint: _Optional[str] = ..., replays: _Optional[int] = ..., last_replayed_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., verify_with: _Optional[str] = ..., verifiable: _Optional[bool] = ..., journaled: _Optional[bool] = ..., damage: _Optional[_Union[_tool_service_pb2.ToolError, _Mapping]] = ...) -> None: ...

class PlanUndoRequest(_message.Message):
    __slots__ = ("conversation_id", "prompt_id", "tool_use_id", "page_token")
    CONVERSATION_ID_FIELD_NUMBER: _ClassVar[int]
    PROMPT_ID_FIELD_NUMBER: _ClassVar[int]
    TOOL_USE_ID_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    conversation_id: str
    prompt_id: str
    tool_use_id: str
    page_token: str
    def __init__(self, conversation_id: _Optional[str] = ..., prompt_id: _Optional[str] = ..., tool_use_id: _Optional[str] = ..., page_token: _Optional[str] = ...) -> None: ...

class PlanUndoResponse(_message.Message):
    __slots__ = ("effects", "next_page_token")
    EFFECTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    effects: _containers.RepeatedCompositeFieldContainer[_conversation_service_pb2.CommittedEffect]
    next_page_token: str
    def __init__(self, effects: _Optional[_Iterable[_Union[_conversation_service_pb2.CommittedEffect, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class GetOverviewRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetOverviewResponse(_message.Message):
    __slots__ = ("tools", "numbers", "tools_cut")
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    NUMBERS_FIELD_NUMBER: _ClassVar[int]
    TOOLS_CUT_FIELD_NUMBER: _ClassVar[int]
    tools: _containers.RepeatedCompositeFieldContainer[ToolOverview]
    numbers: LoopNumbers
    tools_cut: int
    def __init__(self, tools: _Optional[_Iterable[_Union[ToolOverview, _Mapping]]] = ..., numbers: _Optional[_Union[LoopNumbers, _Mapping]] = ..., tools_cut: _Optional[int] = ...) -> None: ...

class LoopNumbers(_message.Message):
    __slots__ = ("prompts", "calls_per_prompt_median", "calls_per_prompt_p99", "recovery_rate", "recoveries", "replay_rate", "calls")
    PROMPTS_FIELD_NUMBER: _ClassVar[int]
    CALLS_PER_PROMPT_MEDIAN_FIELD_NUMBER: _ClassVar[int]
    CALLS_PER_PROMPT_P99_FIELD_NUMBER: _ClassVar[int]
    RECOVERY_RATE_FIELD_NUMBER: _ClassVar[int]
    RECOVERIES_FIELD_NUMBER: _ClassVar[int]
    REPLAY_RATE_FIELD_NUMBER: _ClassVar[int]
    CALLS_FIELD_NUMBER: _ClassVar[int]
    prompts: int
    calls_per_prompt_median: float
    calls_per_prompt_p99: float
    recovery_rate: float
    recoveries: int
    replay_rate: float
    calls: int
    def __init__(self, prompts: _Optional[int] = ..., calls_per_prompt_median: _Optional[float] = ..., calls_per_prompt_p99: _Optional[float] = ..., recovery_rate: _Optional[float] = ..., recoveries: _Optional[int] = ..., replay_rate: _Optional[float] = ..., calls: _Optional[int] = ...) -> None: ...

class ToolOverview(_message.Message):
    __slots__ = ("tool_name", "effect", "backend", "breaker", "blocked_for", "refused", "calls", "errors", "p50", "p99", "recent_requests", "recent_retries", "error_texts")
    TOOL_NAME_FIELD_NUMBER: _ClassVar[int]
    EFFECT_FIELD_NUMBER: _ClassVar[int]
    BACKEND_FIELD_NUMBER: _ClassVar[int]
    BREAKER_FIELD_NUMBER: _ClassVar[int]
    BLOCKED_FOR_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    CALLS_FIELD_NUMBER: _ClassVar[int]
    ERRORS_FIELD_NUMBER: _ClassVar[int]
    P50_FIELD_NUMBER: _ClassVar[int]
    P99_FIELD_NUMBER: _ClassVar[int]
    RECENT_REQUESTS_FIELD_NUMBER: _ClassVar[int]
    RECENT_RETRIES_FIELD_NUMBER: _ClassVar[int]
    ERROR_TEXTS_FIELD_NUMBER: _ClassVar[int]
    tool_name: str
    effect: _tool_service_pb2.Effect
    backend: str
    breaker: str
    blocked_for: _duration_pb2.Duration
    refused: str
    calls: int
    errors: int
    p50: _duration_pb2.Duration
    p99: _duration_pb2.Duration
    recent_requests: int
    recent_retries: int
    error_texts: _containers.RepeatedCompositeFieldContainer[ErrorText]
    def __init__(self, tool_name: _Optional[str] = ..., effect: _Optional[_Union[_tool_service_pb2.Effect, str]] = ..., backend: _Optional[str] = ..., breaker: _Optional[str] = ..., blocked_for: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., refused: _Optional[str] = ..., calls: _Optional[int] = ..., errors: _Optional[int] = ..., p50: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., p99: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., recent_requests: _Optional[int] = ..., recent_retries: _Optional[int] = ..., error_texts: _Optional[_Iterable[_Union[ErrorText, _Mapping]]] = ...) -> None: ...

class ErrorText(_message.Message):
    __slots__ = ("code", "constraint", "times", "last_at")
    CODE_FIELD_NUMBER: _ClassVar[int]
    CONSTRAINT_FIELD_NUMBER: _ClassVar[int]
    TIMES_FIELD_NUMBER: _ClassVar[int]
    LAST_AT_FIELD_NUMBER: _ClassVar[int]
    code: str
    constraint: str
    times: int
    last_at: _timestamp_pb2.Timestamp
    def __init__(self, code: _Optional[str] = ..., constraint: _Optional[str] = ..., times: _Optional[int] = ..., last_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class ResolveExecutionRequest(_message.Message):
    __slots__ = ("conversation_id", "turn_id", "tool_use_id", "state", "reason", "content", "is_error", "resolved_by", "epoch", "validate_only")
    CONVERSATION_ID_FIELD_NUMBER: _ClassVar[int]
    TURN_ID_FIELD_NUMBER: _ClassVar[int]
    TOOL_USE_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    IS_ERROR_FIELD_NUMBER: _ClassVar[int]
    RESOLVED_BY_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    conversation_id: str
    turn_id: str
    tool_use_id: str
    state: _tool_service_pb2.ExecutionState
    reason: str
    content: str
    is_error: bool
    resolved_by: str
    epoch: int
    validate_only: bool
    def __init__(self, conversation_id: _Optional[str] = ..., turn_id: _Optional[str] = ..., tool_use_id: _Optional[str] = ..., state: _Optional[_Union[_tool_service_pb2.ExecutionState, str]] = ..., reason: _Optional[str] = ..., content: _Optional[str] = ..., is_error: _Optional[bool] = ..., resolved_by: _Optional[str] = ..., epoch: _Optional[int] = ..., validate_only: _Optional[bool] = ...) -> None: ...

class ResolveExecutionResponse(_message.Message):
    __slots__ = ("execution",)
    EXECUTION_FIELD_NUMBER: _ClassVar[int]
    execution: _tool_service_pb2.Execution
    def __init__(self, execution: _Optional[_Union[_tool_service_pb2.Execution, _Mapping]] = ...) -> None: ...

class VerifyExecutionRequest(_message.Message):
    __slots__ = ("conversation_id", "turn_id", "tool_use_id", "arguments_json", "settle", "resolved_by")
    CONVERSATION_ID_FIELD_NUMBER: _ClassVar[int]
    TURN_ID_FIELD_NUMBER: _ClassVar[int]
    TOOL_USE_ID_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_JSON_FIELD_NUMBER: _ClassVar[int]
    SETTLE_FIELD_NUMBER: _ClassVar[int]
    RESOLVED_BY_FIELD_NUMBER: _ClassVar[int]
    conversation_id: str
    turn_id: str
    tool_use_id: str
    arguments_json: str
    settle: bool
    resolved_by: str
    def __init__(self, conversation_id: _Optional[str] = ..., turn_id: _Optional[str] = ..., tool_use_id: _Optional[str] = ..., arguments_json: _Optional[str] = ..., settle: _Optional[bool] = ..., resolved_by: _Optional[str] = ...) -> None: ...

class VerifyExecutionResponse(_message.Message):
    __slots__ = ("verdict", "explanation", "not_before", "result", "settled", "execution")
    VERDICT_FIELD_NUMBER: _ClassVar[int]
    EXPLANATION_FIELD_NUMBER: _ClassVar[int]
    NOT_BEFORE_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    SETTLED_FIELD_NUMBER: _ClassVar[int]
    EXECUTION_FIELD_NUMBER: _ClassVar[int]
    verdict: VerificationVerdict
    explanation: str
    not_before: _timestamp_pb2.Timestamp
    result: _tool_service_pb2.ExecuteToolResponse
    settled: bool
    execution: _tool_service_pb2.Execution
    def __init__(self, verdict: _Optional[_Union[VerificationVerdict, str]] = ..., explanation: _Optional[str] = ..., not_before: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., result: _Optional[_Union[_tool_service_pb2.ExecuteToolResponse, _Mapping]] = ..., settled: _Optional[bool] = ..., execution: _Optional[_Union[_tool_service_pb2.Execution, _Mapping]] = ...) -> None: ...

class CallDetails(_message.Message):
    __slots__ = ("prompt_id", "arguments_json", "arguments_cut", "labels", "upstream_id", "undo", "not_undoable", "told_before")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    PROMPT_ID_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_JSON_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_CUT_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    UPSTREAM_ID_FIELD_NUMBER: _ClassVar[int]
    UNDO_FIELD_NUMBER: _ClassVar[int]
    NOT_UNDOABLE_FIELD_NUMBER: _ClassVar[int]
    TOLD_BEFORE_FIELD_NUMBER: _ClassVar[int]
    prompt_id: str
    arguments_json: str
    arguments_cut: bool
    labels: _containers.ScalarMap[str, str]
    upstream_id: str
    undo: _conversation_service_pb2.PlannedCall
    not_undoable: str
    told_before: str
    def __init__(self, prompt_id: _Optional[str] = ..., arguments_json: _Optional[str] = ..., arguments_cut: _Optional[bool] = ..., labels: _Optional[_Mapping[str, str]] = ..., upstream_id: _Optional[str] = ..., undo: _Optional[_Union[_conversation_service_pb2.PlannedCall, _Mapping]] = ..., not_undoable: _Optional[str] = ..., told_before: _Optional[str] = ...) -> None: ...

class ShowConversationRequest(_message.Message):
    __slots__ = ("conversation_id", "from_event")
    CONVERSATION_ID_FIELD_NUMBER: _ClassVar[int]
    FROM_EVENT_FIELD_NUMBER: _ClassVar[int]
    conversation_id: str
    from_event: int
    def __init__(self, conversation_id: _Optional[str] = ..., from_event: _Optional[int] = ...) -> None: ...

class ShowConversationResponse(_message.Message):
    __slots__ = ("messages", "provider", "started_at", "updated_at", "events_total", "events", "next_event", "first_unrecovered", "counts", "more_calls", "records_kept")
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    UPDATED_AT_FIELD_NUMBER: _ClassVar[int]
    EVENTS_TOTAL_FIELD_NUMBER: _ClassVar[int]
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    NEXT_EVENT_FIELD_NUMBER: _ClassVar[int]
    FIRST_UNRECOVERED_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    MORE_CALLS_FIELD_NUMBER: _ClassVar[int]
    RECORDS_KEPT_FIELD_NUMBER: _ClassVar[int]
    messages: int
    provider: str
    started_at: _timestamp_pb2.Timestamp
    updated_at: _timestamp_pb2.Timestamp
    events_total: int
    events: _containers.RepeatedCompositeFieldContainer[ConversationEvent]
    next_event: int
    first_unrecovered: int
    counts: ErrorCounts
    more_calls: bool
    records_kept: _duration_pb2.Duration
    def __init__(self, messages: _Optional[int] = ..., provider: _Optional[str] = ..., started_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., updated_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., events_total: _Optional[int] = ..., events: _Optional[_Iterable[_Union[ConversationEvent, _Mapping]]] = ..., next_event: _Optional[int] = ..., first_unrecovered: _Optional[int] = ..., counts: _Optional[_Union[ErrorCounts, _Mapping]] = ..., more_calls: _Optional[bool] = ..., records_kept: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class ConversationEvent(_message.Message):
    __slots__ = ("kind", "prompt", "prompt_id", "unappended", "message", "text", "call")
    KIND_FIELD_NUMBER: _ClassVar[int]
    PROMPT_FIELD_NUMBER: _ClassVar[int]
    PROMPT_ID_FIELD_NUMBER: _ClassVar[int]
    UNAPPENDED_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    CALL_FIELD_NUMBER: _ClassVar[int]
    kind: ConversationEventKind
    prompt: int
    prompt_id: str
    unappended: bool
    message: int
    text: str
    call: ConversationCall
    def __init__(self, kind: _Optional[_Union[ConversationEventKind, str]] = ..., prompt: _Optional[int] = ..., prompt_id: _Optional[str] = ..., unappended: _Optional[bool] = ..., message: _Optional[int] = ..., text: _Optional[str] = ..., call: _Optional[_Union[ConversationCall, _Mapping]] = ...) -> None: ...

class ConversationCall(_message.Message):
    __slots__ = ("tool_use_id", "turn_id", "tool_name", "arguments_json", "arguments_cut", "record", "execution", "damage", "answered", "text", "text_cut", "error", "resolution")
    TOOL_USE_ID_FIELD_NUMBER: _ClassVar[int]
    TURN_ID_FIELD_NUMBER: _ClassVar[int]
    TOOL_NAME_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_JSON_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_CUT_FIELD_NUMBER: _ClassVar[int]
    RECORD_FIELD_NUMBER: _ClassVar[int]
    EXECUTION_FIELD_NUMBER: _ClassVar[int]
    DAMAGE_FIELD_NUMBER: _ClassVar[int]
    ANSWERED_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    TEXT_CUT_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    RESOLUTION_FIELD_NUMBER: _ClassVar[int]
    tool_use_id: str
    turn_id: str
    tool_name: str
    arguments_json: str
    arguments_cut: bool
    record: RecordKnown
    execution: _tool_service_pb2.Execution
    damage: str
    answered: bool
    text: str
    text_cut: bool
    error: ConversationError
    resolution: _tool_service_pb2.Resolution
    def __init__(self, tool_use_id: _Optional[str] = ..., turn_id: _Optional[str] = ..., tool_name: _Optional[str] = ..., arguments_json: _Optional[str] = ..., arguments_cut: _Optional[bool] = ..., record: _Optional[_Union[RecordKnown, str]] = ..., execution: _Optional[_Union[_tool_service_pb2.Execution, _Mapping]] = ..., damage: _Optional[str] = ..., answered: _Optional[bool] = ..., text: _Optional[str] = ..., text_cut: _Optional[bool] = ..., error: _Optional[_Union[ConversationError, _Mapping]] = ..., resolution: _Optional[_Union[_tool_service_pb2.Resolution, _Mapping]] = ...) -> None: ...

class ConversationError(_message.Message):
    __slots__ = ("code", "fate", "spun", "vague", "next_text", "next_tool", "next_again", "next_differences", "next_nothing")
    CODE_FIELD_NUMBER: _ClassVar[int]
    FATE_FIELD_NUMBER: _ClassVar[int]
    SPUN_FIELD_NUMBER: _ClassVar[int]
    VAGUE_FIELD_NUMBER: _ClassVar[int]
    NEXT_TEXT_FIELD_NUMBER: _ClassVar[int]
    NEXT_TOOL_FIELD_NUMBER: _ClassVar[int]
    NEXT_AGAIN_FIELD_NUMBER: _ClassVar[int]
    NEXT_DIFFERENCES_FIELD_NUMBER: _ClassVar[int]
    NEXT_NOTHING_FIELD_NUMBER: _ClassVar[int]
    code: str
    fate: ErrorFate
    spun: bool
    vague: _containers.RepeatedScalarFieldContainer[str]
    next_text: str
    next_tool: str
    next_again: bool
    next_differences: _containers.RepeatedScalarFieldContainer[str]
    next_nothing: bool
    def __init__(self, code: _Optional[str] = ..., fate: _Optional[_Union[ErrorFate, str]] = ..., spun: _Optional[bool] = ..., vague: _Optional[_Iterable[str]] = ..., next_text: _Optional[str] = ..., next_tool: _Optional[str] = ..., next_again: _Optional[bool] = ..., next_differences: _Optional[_Iterable[str]] = ..., next_nothing: _Optional[bool] = ...) -> None: ...

class ErrorCounts(_message.Message):
    __slots__ = ("calls", "errors", "recovered", "gave_up", "open", "spun")
    CALLS_FIELD_NUMBER: _ClassVar[int]
    ERRORS_FIELD_NUMBER: _ClassVar[int]
    RECOVERED_FIELD_NUMBER: _ClassVar[int]
    GAVE_UP_FIELD_NUMBER: _ClassVar[int]
    OPEN_FIELD_NUMBER: _ClassVar[int]
    SPUN_FIELD_NUMBER: _ClassVar[int]
    calls: int
    errors: int
    recovered: int
    gave_up: int
    open: int
    spun: int
    def __init__(self, calls: _Optional[int] = ..., errors: _Optional[int] = ..., recovered: _Optional[int] = ..., gave_up: _Optional[int] = ..., open: _Optional[int] = ..., spun: _Optional[int] = ...) -> None: ...

class AuditConversationsRequest(_message.Message):
    __slots__ = ("since", "sample", "seed", "tool_name")
    SINCE_FIELD_NUMBER: _ClassVar[int]
    SAMPLE_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    TOOL_NAME_FIELD_NUMBER: _ClassVar[int]
    since: _timestamp_pb2.Timestamp
    sample: int
    seed: int
    tool_name: str
    def __init__(self, since: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., sample: _Optional[int] = ..., seed: _Optional[int] = ..., tool_name: _Optional[str] = ...) -> None: ...

class AuditConversationsResponse(_message.Message):
    __slots__ = ("found", "sampled", "unreadable", "prompts", "counts", "recorded", "forgotten", "unrecorded", "tools", "messages", "tools_left", "messages_left", "records_kept", "conversations_kept")
    FOUND_FIELD_NUMBER: _ClassVar[int]
    SAMPLED_FIELD_NUMBER: _ClassVar[int]
    UNREADABLE_FIELD_NUMBER: _ClassVar[int]
    PROMPTS_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    RECORDED_FIELD_NUMBER: _ClassVar[int]
    FORGOTTEN_FIELD_NUMBER: _ClassVar[int]
    UNRECORDED_FIELD_NUMBER: _ClassVar[int]
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    TOOLS_LEFT_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_LEFT_FIELD_NUMBER: _ClassVar[int]
    RECORDS_KEPT_FIELD_NUMBER: _ClassVar[int]
    CONVERSATIONS_KEPT_FIELD_NUMBER: _ClassVar[int]
    found: int
    sampled: int
    unreadable: int
    prompts: int
    counts: ErrorCounts
    recorded: int
    forgotten: int
    unrecorded: int
    tools: _containers.RepeatedCompositeFieldContainer[AuditedTool]
    messages: _containers.RepeatedCompositeFieldContainer[AuditedMessage]
    tools_left: int
    messages_left: int
    records_kept: _duration_pb2.Duration
    conversations_kept: _duration_pb2.Duration
    def __init__(self, found: _Optional[int] = ..., sampled: _Optional[int] = ..., unreadable: _Optional[int] = ..., prompts: _Optional[int] = ..., counts: _Optional[_Union[ErrorCounts, _Mapping]] = ..., recorded: _Optional[int] = ..., forgotten: _Optional[int] = ..., unrecorded: _Optional[int] = ..., tools: _Optional[_Iterable[_Union[AuditedTool, _Mapping]]] = ..., messages: _Optional[_Iterable[_Union[AuditedMessage, _Mapping]]] = ..., tools_left: _Optional[int] = ..., messages_left: _Optional[int] = ..., records_kept: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., conversations_kept: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class AuditedTool(_message.Message):
    __slots__ = ("tool_name", "counts")
    TOOL_NAME_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    tool_name: str
    counts: ErrorCounts
    def __init__(self, tool_name: _Optional[str] = ..., counts: _Optional[_Union[ErrorCounts, _Mapping]] = ...) -> None: ...

class AuditedMessage(_message.Message):
    __slots__ = ("tool_name", "code", "example", "counts", "vague", "conversation_ids")
    TOOL_NAME_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    EXAMPLE_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    VAGUE_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_IDS_FIELD_NUMBER: _ClassVar[int]
    tool_name: str
    code: str
    example: str
    counts: ErrorCounts
    vague: _containers.RepeatedScalarFieldContainer[str]
    conversation_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, tool_name: _Optional[str] = ..., code: _Optional[str] = ..., example: _Optional[str] = ..., counts: _Optional[_Union[ErrorCounts, _Mapping]] = ..., vague: _Optional[_Iterable[str]] = ..., conversation_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class VerifyReceiptsRequest(_message.Message):
    __slots__ = ("conversation_id", "noted_head")
    CONVERSATION_ID_FIELD_NUMBER: _ClassVar[int]
    NOTED_HEAD_FIELD_NUMBER: _ClassVar[int]
    conversation_id: str
    noted_head: str
    def __init__(self, conversation_id: _Optional[str] = ..., noted_head: _Optional[str] = ...) -> None: ...

class VerifyReceiptsResponse(_message.Message):
    __slots__ = ("head", "receipts", "checked", "forgotten", "since", "problems", "problems_left", "more", "enabled", "conversation_id")
    HEAD_FIELD_NUMBER: _ClassVar[int]
    RECEIPTS_FIELD_NUMBER: _ClassVar[int]
    CHECKED_FIELD_NUMBER: _ClassVar[int]
    FORGOTTEN_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    PROBLEMS_FIELD_NUMBER: _ClassVar[int]
    PROBLEMS_LEFT_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    ENABLED_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_ID_FIELD_NUMBER: _ClassVar[int]
    head: str
    receipts: int
    checked: int
    forgotten: int
    since: _timestamp_pb2.Timestamp
    problems: _containers.RepeatedScalarFieldContainer[str]
    problems_left: int
    more: bool
    enabled: bool
    conversation_id: str
    def __init__(self, head: _Optional[str] = ..., receipts: _Optional[int] = ..., checked: _Optional[int] = ..., forgotten: _Optional[int] = ..., since: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., problems: _Optional[_Iterable[str]] = ..., problems_left: _Optional[int] = ..., more: _Optional[bool] = ..., enabled: _Optional[bool] = ..., conversation_id: _Optional[str] = ...) -> None: ...

class ListHeldRequest(_message.Message):
    __slots__ = ("page_size", "page_token", "conversation_id", "turn_id", "tool_use_id")
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_ID_FIELD_NUMBER: _ClassVar[int]
    TURN_ID_FIELD_NUMBER: _ClassVar[int]
    TOOL_USE_ID_FIELD_NUMBER: _ClassVar[int]
    page_size: int
    page_token: str
    conversation_id: str
    turn_id: str
    tool_use_id: str
    def __init__(self, page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., conversation_id: _Optional[str] = ..., turn_id: _Optional[str] = ..., tool_use_id: _Optional[str] = ...) -> None: ...

class ListHeldResponse(_message.Message):
    __slots__ = ("executions", "next_page_token")
    EXECUTIONS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    executions: _containers.RepeatedCompositeFieldContainer[HeldExecution]
    next_page_token: str
    def __init__(self, executions: _Optional[_Iterable[_Union[HeldExecution, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class HeldExecution(_message.Message):
    __slots__ = ("conversation_id", "turn_id", "tool_use_id", "tenant", "execution", "fingerprint", "hold", "details")
    CONVERSATION_ID_FIELD_NUMBER: _ClassVar[int]
    TURN_ID_FIELD_NUMBER: _ClassVar[int]
    TOOL_USE_ID_FIELD_NUMBER: _ClassVar[int]
    TENANT_FIELD_NUMBER: _ClassVar[int]
    EXECUTION_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    HOLD_FIELD_NUMBER: _ClassVar[int]
    DETAILS_FIELD_NUMBER: _ClassVar[int]
    conversation_id: str
    turn_id: str
    tool_use_id: str
    tenant: str
    execution: _tool_service_pb2.Execution
    fingerprint: str
    hold: _tool_service_pb2.Hold
    details: CallDetails
    def __init__(self, conversation_id: _Optional[str] = ..., turn_id: _Optional[str] = ..., tool_use_id: _Optional[str] = ..., tenant: _Optional[str] = ..., execution: _Optional[_Union[_tool_service_pb2.Execution, _Mapping]] = ..., fingerprint: _Optional[str] = ..., hold: _Optional[_Union[_tool_service_pb2.Hold, _Mapping]] = ..., details: _Optional[_Union[CallDetails, _Mapping]] = ...) -> None: ...

class ApproveExecutionRequest(_message.Message):
    __slots__ = ("conversation_id", "turn_id", "tool_use_id", "decided_by", "reason", "hold", "fingerprint")
    CONVERSATION_ID_FIELD_NUMBER: _ClassVar[int]
    TURN_ID_FIELD_NUMBER: _ClassVar[int]
    TOOL_USE_ID_FIELD_NUMBER: _ClassVar[int]
    DECIDED_BY_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    HOLD_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    conversation_id: str
    turn_id: str
    tool_use_id: str
    decided_by: str
    reason: str
    hold: str
    fingerprint: str
    def __init__(self, conversation_id: _Optional[str] = ..., turn_id: _Optional[str] = ..., tool_use_id: _Optional[str] = ..., decided_by: _Optional[str] = ..., reason: _Optional[str] = ..., hold: _Optional[str] = ..., fingerprint: _Optional[str] = ...) -> None: ...

class ApproveExecutionResponse(_message.Message):
    __slots__ = ("execution",)
    EXECUTION_FIELD_NUMBER: _ClassVar[int]
    execution: _tool_service_pb2.Execution
    def __init__(self, execution: _Optional[_Union[_tool_service_pb2.Execution, _Mapping]] = ...) -> None: ...

class DenyExecutionRequest(_message.Message):
    __slots__ = ("conversation_id", "turn_id", "tool_use_id", "decided_by", "reason", "hold", "fingerprint")
    CONVERSATION_ID_FIELD_NUMBER: _ClassVar[int]
    TURN_ID_FIELD_NUMBER: _ClassVar[int]
    TOOL_USE_ID_FIELD_NUMBER: _ClassVar[int]
    DECIDED_BY_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    HOLD_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    conversation_id: str
    turn_id: str
    tool_use_id: str
    decided_by: str
    reason: str
    hold: str
    fingerprint: str
    def __init__(self, conversation_id: _Optional[str] = ..., turn_id: _Optional[str] = ..., tool_use_id: _Optional[str] = ..., decided_by: _Optional[str] = ..., reason: _Optional[str] = ..., hold: _Optional[str] = ..., fingerprint: _Optional[str] = ...) -> None: ...

class DenyExecutionResponse(_message.Message):
    __slots__ = ("execution",)
    EXECUTION_FIELD_NUMBER: _ClassVar[int]
    execution: _tool_service_pb2.Execution
    def __init__(self, execution: _Optional[_Union[_tool_service_pb2.Execution, _Mapping]] = ...) -> None: ...

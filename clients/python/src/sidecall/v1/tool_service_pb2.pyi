import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Outcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OUTCOME_UNSPECIFIED: _ClassVar[Outcome]
    OUTCOME_OK: _ClassVar[Outcome]
    OUTCOME_EMPTY: _ClassVar[Outcome]
    OUTCOME_PARTIAL: _ClassVar[Outcome]
    OUTCOME_ERROR: _ClassVar[Outcome]

class LoopLevel(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LOOP_LEVEL_UNSPECIFIED: _ClassVar[LoopLevel]
    LOOP_LEVEL_NUDGE: _ClassVar[LoopLevel]
    LOOP_LEVEL_REFUSE: _ClassVar[LoopLevel]
    LOOP_LEVEL_ESCALATE: _ClassVar[LoopLevel]
    LOOP_LEVEL_STOP: _ClassVar[LoopLevel]

class RecoveryClass(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RECOVERY_CLASS_UNSPECIFIED: _ClassVar[RecoveryClass]
    RECOVERY_CLASS_MALFORMED: _ClassVar[RecoveryClass]
    RECOVERY_CLASS_TRANSIENT: _ClassVar[RecoveryClass]
    RECOVERY_CLASS_HARD: _ClassVar[RecoveryClass]
    RECOVERY_CLASS_UNKNOWN: _ClassVar[RecoveryClass]
    RECOVERY_CLASS_GUARD: _ClassVar[RecoveryClass]

class Effect(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EFFECT_UNSPECIFIED: _ClassVar[Effect]
    EFFECT_READ_ONLY: _ClassVar[Effect]
    EFFECT_IDEMPOTENT: _ClassVar[Effect]
    EFFECT_KEYED: _ClassVar[Effect]
    EFFECT_NON_IDEMPOTENT: _ClassVar[Effect]

class ExecutionState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EXECUTION_STATE_UNSPECIFIED: _ClassVar[ExecutionState]
    EXECUTION_STATE_CLAIMED: _ClassVar[ExecutionState]
    EXECUTION_STATE_DONE: _ClassVar[ExecutionState]
    EXECUTION_STATE_NOT_RUN: _ClassVar[ExecutionState]
    EXECUTION_STATE_UNKNOWN: _ClassVar[ExecutionState]
    EXECUTION_STATE_CLOSED: _ClassVar[ExecutionState]
    EXECUTION_STATE_HELD: _ClassVar[ExecutionState]
OUTCOME_UNSPECIFIED: Outcome
OUTCOME_OK: Outcome
OUTCOME_EMPTY: Outcome
OUTCOME_PARTIAL: Outcome
OUTCOME_ERROR: Outcome
LOOP_LEVEL_UNSPECIFIED: LoopLevel
LOOP_LEVEL_NUDGE: LoopLevel
LOOP_LEVEL_REFUSE: LoopLevel
LOOP_LEVEL_ESCALATE: LoopLevel
LOOP_LEVEL_STOP: LoopLevel
RECOVERY_CLASS_UNSPECIFIED: RecoveryClass
RECOVERY_CLASS_MALFORMED: RecoveryClass
RECOVERY_CLASS_TRANSIENT: RecoveryClass
RECOVERY_CLASS_HARD: RecoveryClass
RECOVERY_CLASS_UNKNOWN: RecoveryClass
RECOVERY_CLASS_GUARD: RecoveryClass
EFFECT_UNSPECIFIED: Effect
EFFECT_READ_ONLY: Effect
EFFECT_IDEMPOTENT: Effect
EFFECT_KEYED: Effect
EFFECT_NON_IDEMPOTENT: Effect
EXECUTION_STATE_UNSPECIFIED: ExecutionState
EXECUTION_STATE_CLAIMED: ExecutionState
EXECUTION_STATE_DONE: ExecutionState
EXECUTION_STATE_NOT_RUN: ExecutionState
EXECUTION_STATE_UNKNOWN: ExecutionState
EXECUTION_STATE_CLOSED: ExecutionState
EXECUTION_STATE_HELD: ExecutionState

class ExecuteToolRequest(_message.Message):
    __slots__ = ("tool_use_id", "tool_name", "arguments_json", "conversation_id", "turn_id", "prompt_id", "profile", "validate_only", "timeout", "max_output_chars", "tokens_used", "labels", "allow_duplicate_effect", "message_id", "hold_only")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    TOOL_USE_ID_FIELD_NUMBER: _ClassVar[int]
    TOOL_NAME_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_JSON_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_ID_FIELD_NUMBER: _ClassVar[int]
    TURN_ID_FIELD_NUMBER: _ClassVar[int]
    PROMPT_ID_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    VALIDATE_ONLY_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    MAX_OUTPUT_CHARS_FIELD_NUMBER: _ClassVar[int]
    TOKENS_USED_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    ALLOW_DUPLICATE_EFFECT_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_ID_FIELD_NUMBER: _ClassVar[int]
    HOLD_ONLY_FIELD_NUMBER: _ClassVar[int]
    tool_use_id: str
    tool_name: str
    arguments_json: str
    conversation_id: str
    turn_id: str
    prompt_id: str
    profile: str
    validate_only: bool
    timeout: _duration_pb2.Duration
    max_output_chars: int
    tokens_used: int
    labels: _containers.ScalarMap[str, str]
    allow_duplicate_effect: bool
    message_id: str
    hold_only: bool
    def __init__(self, tool_use_id: _Optional[str] = ..., tool_name: _Optional[str] = ..., arguments_json: _Optional[str] = ..., conversation_id: _Optional[str] = ..., turn_id: _Optional[str] = ..., prompt_id: _Optional[str] = ..., profile: _Optional[str] = ..., validate_only: _Optional[bool] = ..., timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., max_output_chars: _Optional[int] = ..., tokens_used: _Optional[int] = ..., labels: _Optional[_Mapping[str, str]] = ..., allow_duplicate_effect: _Optional[bool] = ..., message_id: _Optional[str] = ..., hold_only: _Optional[bool] = ...) -> None: ...

class McpRound(_message.Message):
    __slots__ = ("capabilities_json", "input_responses_json", "request_state")
    CAPABILITIES_JSON_FIELD_NUMBER: _ClassVar[int]
    INPUT_RESPONSES_JSON_FIELD_NUMBER: _ClassVar[int]
    REQUEST_STATE_FIELD_NUMBER: _ClassVar[int]
    capabilities_json: str
    input_responses_json: str
    request_state: str
    def __init__(self, capabilities_json: _Optional[str] = ..., input_responses_json: _Optional[str] = ..., request_state: _Optional[str] = ...) -> None: ...

class ExecuteToolResponse(_message.Message):
    __slots__ = ("tool_use_id", "outcome", "content", "is_error", "error", "violations", "recovery", "replayed", "items", "truncation", "budget", "recorded", "structured_content_json", "duration", "blocks", "notices", "resolution", "structured_output_ref", "stop", "loop", "earlier", "traceparent", "hold", "approval", "input_required_json")
    TOOL_USE_ID_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    IS_ERROR_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    VIOLATIONS_FIELD_NUMBER: _ClassVar[int]
    RECOVERY_FIELD_NUMBER: _ClassVar[int]
    REPLAYED_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    TRUNCATION_FIELD_NUMBER: _ClassVar[int]
    BUDGET_FIELD_NUMBER: _ClassVar[int]
    RECORDED_FIELD_NUMBER: _ClassVar[int]
    STRUCTURED_CONTENT_JSON_FIELD_NUMBER: _ClassVar[int]
    DURATION_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    NOTICES_FIELD_NUMBER: _ClassVar[int]
    RESOLUTION_FIELD_NUMBER: _ClassVar[int]
    STRUCTURED_OUTPUT_REF_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    LOOP_FIELD_NUMBER: _ClassVar[int]
    EARLIER_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    HOLD_FIELD_NUMBER: _ClassVar[int]
    APPROVAL_FIELD_NUMBER: _ClassVar[int]
    INPUT_REQUIRED_JSON_FIELD_NUMBER: _ClassVar[int]
    tool_use_id: str
    outcome: Outcome
    content: str
    is_error: bool
    error: ToolError
    violations: _containers.RepeatedCompositeFieldContainer[ToolError]
    recovery: Recovery
    replayed: bool
    items: _containers.RepeatedCompositeFieldContainer[ItemResult]
    truncation: Truncation
    budget: Budget
    recorded: bool
    structured_content_json: str
    duration: _duration_pb2.Duration
    blocks: _containers.RepeatedCompositeFieldContainer[ContentBlock]
    notices: _containers.RepeatedScalarFieldContainer[str]
    resolution: Resolution
    structured_output_ref: str
    stop: bool
    loop: LoopFinding
    earlier: EarlierEffect
    traceparent: str
    hold: Hold
    approval: Resolution
    input_required_json: str
    def __init__(self, tool_use_id: _Optional[str] = ..., outcome: _Optional[_Union[Outcome, str]] = ..., content: _Optional[str] = ..., is_error: _Optional[bool] = ..., error: _Optional[_Union[ToolError, _Mapping]] = ..., violations: _Optional[_Iterable[_Union[ToolError, _Mapping]]] = ..., recovery: _Optional[_Union[Recovery, _Mapping]] = ..., replayed: _Optional[bool] = ..., items: _Optional[_Iterable[_Union[ItemResult, _Mapping]]] = ..., truncation: _Optional[_Union[Truncation, _Mapping]] = ..., budget: _Optional[_Union[Budget, _Mapping]] = ..., recorded: _Optional[bool] = ..., structured_content_json: _Optional[str] = ..., duration: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., blocks: _Optional[_Iterable[_Union[ContentBlock, _Mapping]]] = ..., notices: _Optional[_Iterable[str]] = ..., resolution: _Optional[_Union[Resolution, _Mapping]] = ..., structured_output_ref: _Optional[str] = ..., stop: _Optional[bool] = ..., loop: _Optional[_Union[LoopFinding, _Mapping]] = ..., earlier: _Optional[_Union[EarlierEffect, _Mapping]] = ..., traceparent: _Optional[str] = ..., hold: _Optional[_Union[Hold, _Mapping]] = ..., approval: _Optional[_Union[Resolution, _Mapping]] = ..., input_required_json: _Optional[str] = ...) -> None: ...

class Hold(_message.Message):
    __slots__ = ("reason", "expires_at", "approved")
    REASON_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    APPROVED_FIELD_NUMBER: _ClassVar[int]
    reason: str
    expires_at: _timestamp_pb2.Timestamp
    approved: bool
    def __init__(self, reason: _Optional[str] = ..., expires_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., approved: _Optional[bool] = ...) -> None: ...

class LoopFinding(_message.Message):
    __slots__ = ("level", "rule", "count", "limit", "since", "refusals", "round")
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    REFUSALS_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    level: LoopLevel
    rule: str
    count: int
    limit: int
    since: _timestamp_pb2.Timestamp
    refusals: int
    round: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, level: _Optional[_Union[LoopLevel, str]] = ..., rule: _Optional[str] = ..., count: _Optional[int] = ..., limit: _Optional[int] = ..., since: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., refusals: _Optional[int] = ..., round: _Optional[_Iterable[str]] = ...) -> None: ...

class EarlierEffect(_message.Message):
    __slots__ = ("conversation_id", "turn_id", "tool_use_id", "finished_at", "state")
    CONVERSATION_ID_FIELD_NUMBER: _ClassVar[int]
    TURN_ID_FIELD_NUMBER: _ClassVar[int]
    TOOL_USE_ID_FIELD_NUMBER: _ClassVar[int]
    FINISHED_AT_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    conversation_id: str
    turn_id: str
    tool_use_id: str
    finished_at: _timestamp_pb2.Timestamp
    state: ExecutionState
    def __init__(self, conversation_id: _Optional[str] = ..., turn_id: _Optional[str] = ..., tool_use_id: _Optional[str] = ..., finished_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., state: _Optional[_Union[ExecutionState, str]] = ...) -> None: ...

class Resolution(_message.Message):
    __slots__ = ("by", "reason", "at", "state", "verified_with", "claimed_by")
    BY_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    VERIFIED_WITH_FIELD_NUMBER: _ClassVar[int]
    CLAIMED_BY_FIELD_NUMBER: _ClassVar[int]
    by: str
    reason: str
    at: _timestamp_pb2.Timestamp
    state: ExecutionState
    verified_with: str
    claimed_by: str
    def __init__(self, by: _Optional[str] = ..., reason: _Optional[str] = ..., at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., state: _Optional[_Union[ExecutionState, str]] = ..., verified_with: _Optional[str] = ..., claimed_by: _Optional[str] = ...) -> None: ...

class ToolError(_message.Message):
    __slots__ = ("code", "field", "constraint", "received", "hint")
    CODE_FIELD_NUMBER: _ClassVar[int]
    FIELD_FIELD_NUMBER: _ClassVar[int]
    CONSTRAINT_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_FIELD_NUMBER: _ClassVar[int]
    HINT_FIELD_NUMBER: _ClassVar[int]
    code: str
    field: str
    constraint: str
    received: str
    hint: str
    def __init__(self, code: _Optional[str] = ..., field: _Optional[str] = ..., constraint: _Optional[str] = ..., received: _Optional[str] = ..., hint: _Optional[str] = ...) -> None: ...

class Recovery(_message.Message):
    __slots__ = ("retryable", "retries_exhausted", "retry_after", "allowed_alternatives", "attempts", "context", "suggested_arguments_json", "suggested_tool_name", "require_escalation")
    CLASS_FIELD_NUMBER: _ClassVar[int]
    RETRYABLE_FIELD_NUMBER: _ClassVar[int]
    RETRIES_EXHAUSTED_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_FIELD_NUMBER: _ClassVar[int]
    ALLOWED_ALTERNATIVES_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    CONTEXT_FIELD_NUMBER: _ClassVar[int]
    SUGGESTED_ARGUMENTS_JSON_FIELD_NUMBER: _ClassVar[int]
    SUGGESTED_TOOL_NAME_FIELD_NUMBER: _ClassVar[int]
    REQUIRE_ESCALATION_FIELD_NUMBER: _ClassVar[int]
    retryable: bool
    retries_exhausted: bool
    retry_after: _duration_pb2.Duration
    allowed_alternatives: _containers.RepeatedScalarFieldContainer[str]
    attempts: int
    context: str
    suggested_arguments_json: str
    suggested_tool_name: str
    require_escalation: bool
    def __init__(self, retryable: _Optional[bool] = ..., retries_exhausted: _Optional[bool] = ..., retry_after: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., allowed_alternatives: _Optional[_Iterable[str]] = ..., attempts: _Optional[int] = ..., context: _Optional[str] = ..., suggested_arguments_json: _Optional[str] = ..., suggested_tool_name: _Optional[str] = ..., require_escalation: _Optional[bool] = ..., **kwargs) -> None: ...

class ItemResult(_message.Message):
    __slots__ = ("index", "ok", "content", "error")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    OK_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    index: int
    ok: bool
    content: str
    error: ToolError
    def __init__(self, index: _Optional[int] = ..., ok: _Optional[bool] = ..., content: _Optional[str] = ..., error: _Optional[_Union[ToolError, _Mapping]] = ...) -> None: ...

class Truncation(_message.Message):
    __slots__ = ("original_chars", "returned_chars", "output_ref", "strategy")
    ORIGINAL_CHARS_FIELD_NUMBER: _ClassVar[int]
    RETURNED_CHARS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_REF_FIELD_NUMBER: _ClassVar[int]
    STRATEGY_FIELD_NUMBER: _ClassVar[int]
    original_chars: int
    returned_chars: int
    output_ref: str
    strategy: str
    def __init__(self, original_chars: _Optional[int] = ..., returned_chars: _Optional[int] = ..., output_ref: _Optional[str] = ..., strategy: _Optional[str] = ...) -> None: ...

class Budget(_message.Message):
    __slots__ = ("tool_calls_used", "tool_calls_limit", "tokens_used", "tokens_limit", "deadline")
    TOOL_CALLS_USED_FIELD_NUMBER: _ClassVar[int]
    TOOL_CALLS_LIMIT_FIELD_NUMBER: _ClassVar[int]
    TOKENS_USED_FIELD_NUMBER: _ClassVar[int]
    TOKENS_LIMIT_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_FIELD_NUMBER: _ClassVar[int]
    tool_calls_used: int
    tool_calls_limit: int
    tokens_used: int
    tokens_limit: int
    deadline: _timestamp_pb2.Timestamp
    def __init__(self, tool_calls_used: _Optional[int] = ..., tool_calls_limit: _Optional[int] = ..., tokens_used: _Optional[int] = ..., tokens_limit: _Optional[int] = ..., deadline: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class ContentBlock(_message.Message):
    __slots__ = ("type", "mime_type", "data", "text", "uri", "name", "size", "output_ref")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    MIME_TYPE_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    URI_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_REF_FIELD_NUMBER: _ClassVar[int]
    type: str
    mime_type: str
    data: bytes
    text: str
    uri: str
    name: str
    size: int
    output_ref: str
    def __init__(self, type: _Optional[str] = ..., mime_type: _Optional[str] = ..., data: _Optional[bytes] = ..., text: _Optional[str] = ..., uri: _Optional[str] = ..., name: _Optional[str] = ..., size: _Optional[int] = ..., output_ref: _Optional[str] = ...) -> None: ...

class ExecuteToolStreamRequest(_message.Message):
    __slots__ = ("call", "answers", "mcp")
    CALL_FIELD_NUMBER: _ClassVar[int]
    ANSWERS_FIELD_NUMBER: _ClassVar[int]
    MCP_FIELD_NUMBER: _ClassVar[int]
    call: ExecuteToolRequest
    answers: bool
    mcp: McpRound
    def __init__(self, call: _Optional[_Union[ExecuteToolRequest, _Mapping]] = ..., answers: _Optional[bool] = ..., mcp: _Optional[_Union[McpRound, _Mapping]] = ...) -> None: ...

class ExecuteToolStreamResponse(_message.Message):
    __slots__ = ("progress", "mcp", "result")
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    MCP_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    progress: CallProgress
    mcp: McpMessage
    result: ExecuteToolResponse
    def __init__(self, progress: _Optional[_Union[CallProgress, _Mapping]] = ..., mcp: _Optional[_Union[McpMessage, _Mapping]] = ..., result: _Optional[_Union[ExecuteToolResponse, _Mapping]] = ...) -> None: ...

class CallProgress(_message.Message):
    __slots__ = ("note", "progress", "total")
    NOTE_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    note: str
    progress: float
    total: float
    def __init__(self, note: _Optional[str] = ..., progress: _Optional[float] = ..., total: _Optional[float] = ...) -> None: ...

class McpMessage(_message.Message):
    __slots__ = ("method", "params_json", "question_id")
    METHOD_FIELD_NUMBER: _ClassVar[int]
    PARAMS_JSON_FIELD_NUMBER: _ClassVar[int]
    QUESTION_ID_FIELD_NUMBER: _ClassVar[int]
    method: str
    params_json: str
    question_id: str
    def __init__(self, method: _Optional[str] = ..., params_json: _Optional[str] = ..., question_id: _Optional[str] = ...) -> None: ...

class ExecuteToolsRequest(_message.Message):
    __slots__ = ("calls",)
    CALLS_FIELD_NUMBER: _ClassVar[int]
    calls: _containers.RepeatedCompositeFieldContainer[ExecuteToolRequest]
    def __init__(self, calls: _Optional[_Iterable[_Union[ExecuteToolRequest, _Mapping]]] = ...) -> None: ...

class ExecuteToolsResponse(_message.Message):
    __slots__ = ("results",)
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[ExecuteToolResponse]
    def __init__(self, results: _Optional[_Iterable[_Union[ExecuteToolResponse, _Mapping]]] = ...) -> None: ...

class RunMessageRequest(_message.Message):
    __slots__ = ("message_json", "shared", "open_at_version", "max_response_bytes")
    MESSAGE_JSON_FIELD_NUMBER: _ClassVar[int]
    SHARED_FIELD_NUMBER: _ClassVar[int]
    OPEN_AT_VERSION_FIELD_NUMBER: _ClassVar[int]
    MAX_RESPONSE_BYTES_FIELD_NUMBER: _ClassVar[int]
    message_json: str
    shared: ExecuteToolRequest
    open_at_version: int
    max_response_bytes: int
    def __init__(self, message_json: _Optional[str] = ..., shared: _Optional[_Union[ExecuteToolRequest, _Mapping]] = ..., open_at_version: _Optional[int] = ..., max_response_bytes: _Optional[int] = ...) -> None: ...

class RunMessageResponse(_message.Message):
    __slots__ = ("messages_json", "results", "stop", "require_escalation", "budget_exceeded")
    MESSAGES_JSON_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    REQUIRE_ESCALATION_FIELD_NUMBER: _ClassVar[int]
    BUDGET_EXCEEDED_FIELD_NUMBER: _ClassVar[int]
    messages_json: _containers.RepeatedScalarFieldContainer[str]
    results: _containers.RepeatedCompositeFieldContainer[ExecuteToolResponse]
    stop: bool
    require_escalation: bool
    budget_exceeded: bool
    def __init__(self, messages_json: _Optional[_Iterable[str]] = ..., results: _Optional[_Iterable[_Union[ExecuteToolResponse, _Mapping]]] = ..., stop: _Optional[bool] = ..., require_escalation: _Optional[bool] = ..., budget_exceeded: _Optional[bool] = ...) -> None: ...

class ReadMessageRequest(_message.Message):
    __slots__ = ("message_json",)
    MESSAGE_JSON_FIELD_NUMBER: _ClassVar[int]
    message_json: str
    def __init__(self, message_json: _Optional[str] = ...) -> None: ...

class ReadMessageResponse(_message.Message):
    __slots__ = ("provider", "id", "calls", "cut", "exit_reason", "tokens", "messages_json")
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    CALLS_FIELD_NUMBER: _ClassVar[int]
    CUT_FIELD_NUMBER: _ClassVar[int]
    EXIT_REASON_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_JSON_FIELD_NUMBER: _ClassVar[int]
    provider: str
    id: str
    calls: int
    cut: str
    exit_reason: str
    tokens: int
    messages_json: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, provider: _Optional[str] = ..., id: _Optional[str] = ..., calls: _Optional[int] = ..., cut: _Optional[str] = ..., exit_reason: _Optional[str] = ..., tokens: _Optional[int] = ..., messages_json: _Optional[_Iterable[str]] = ...) -> None: ...

class Tool(_message.Message):
    __slots__ = ("name", "description", "input_schema_json", "output_schema_json", "effect", "backend", "annotations", "definition_hash")
    class AnnotationsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    INPUT_SCHEMA_JSON_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_SCHEMA_JSON_FIELD_NUMBER: _ClassVar[int]
    EFFECT_FIELD_NUMBER: _ClassVar[int]
    BACKEND_FIELD_NUMBER: _ClassVar[int]
    ANNOTATIONS_FIELD_NUMBER: _ClassVar[int]
    DEFINITION_HASH_FIELD_NUMBER: _ClassVar[int]
    name: str
    description: str
    input_schema_json: str
    output_schema_json: str
    effect: Effect
    backend: str
    annotations: _containers.ScalarMap[str, str]
    definition_hash: str
    def __init__(self, name: _Optional[str] = ..., description: _Optional[str] = ..., input_schema_json: _Optional[str] = ..., output_schema_json: _Optional[str] = ..., effect: _Optional[_Union[Effect, str]] = ..., backend: _Optional[str] = ..., annotations: _Optional[_Mapping[str, str]] = ..., definition_hash: _Optional[str] = ...) -> None: ...

class ListToolsRequest(_message.Message):
    __slots__ = ("profile", "page_size", "page_token", "provider")
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    profile: str
    page_size: int
    page_token: str
    provider: str
    def __init__(self, profile: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., provider: _Optional[str] = ...) -> None: ...

class ListToolsResponse(_message.Message):
    __slots__ = ("tools", "unavailable_backends", "next_page_token", "definitions_json")
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    UNAVAILABLE_BACKENDS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    DEFINITIONS_JSON_FIELD_NUMBER: _ClassVar[int]
    tools: _containers.RepeatedCompositeFieldContainer[Tool]
    unavailable_backends: _containers.RepeatedCompositeFieldContainer[UnavailableBackend]
    next_page_token: str
    definitions_json: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, tools: _Optional[_Iterable[_Union[Tool, _Mapping]]] = ..., unavailable_backends: _Optional[_Iterable[_Union[UnavailableBackend, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., definitions_json: _Optional[_Iterable[str]] = ...) -> None: ...

class GetInstructionsRequest(_message.Message):
    __slots__ = ("profile",)
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    profile: str
    def __init__(self, profile: _Optional[str] = ...) -> None: ...

class GetInstructionsResponse(_message.Message):
    __slots__ = ("text", "unavailable_backends")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    UNAVAILABLE_BACKENDS_FIELD_NUMBER: _ClassVar[int]
    text: str
    unavailable_backends: _containers.RepeatedCompositeFieldContainer[UnavailableBackend]
    def __init__(self, text: _Optional[str] = ..., unavailable_backends: _Optional[_Iterable[_Union[UnavailableBackend, _Mapping]]] = ...) -> None: ...

class UnavailableBackend(_message.Message):
    __slots__ = ("name", "reason", "undiscovered")
    NAME_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    UNDISCOVERED_FIELD_NUMBER: _ClassVar[int]
    name: str
    reason: str
    undiscovered: bool
    def __init__(self, name: _Optional[str] = ..., reason: _Optional[str] = ..., undiscovered: _Optional[bool] = ...) -> None: ...

class GetExecutionRequest(_message.Message):
    __slots__ = ("conversation_id", "turn_id", "tool_use_id")
    CONVERSATION_ID_FIELD_NUMBER: _ClassVar[int]
    TURN_ID_FIELD_NUMBER: _ClassVar[int]
    TOOL_USE_ID_FIELD_NUMBER: _ClassVar[int]
    conversation_id: str
    turn_id: str
    tool_use_id: str
    def __init__(self, conversation_id: _Optional[str] = ..., turn_id: _Optional[str] = ..., tool_use_id: _Optional[str] = ...) -> None: ...

class Execution(_message.Message):
    __slots__ = ("state", "started_at", "finished_at", "attempts", "result", "tool_name", "effect", "epoch", "owner", "lease_until", "approval")
    STATE_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    FINISHED_AT_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    TOOL_NAME_FIELD_NUMBER: _ClassVar[int]
    EFFECT_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    LEASE_UNTIL_FIELD_NUMBER: _ClassVar[int]
    APPROVAL_FIELD_NUMBER: _ClassVar[int]
    state: ExecutionState
    started_at: _timestamp_pb2.Timestamp
    finished_at: _timestamp_pb2.Timestamp
    attempts: int
    result: ExecuteToolResponse
    tool_name: str
    effect: Effect
    epoch: int
    owner: str
    lease_until: _timestamp_pb2.Timestamp
    approval: Resolution
    def __init__(self, state: _Optional[_Union[ExecutionState, str]] = ..., started_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., finished_at: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., attempts: _Optional[int] = ..., result: _Optional[_Union[ExecuteToolResponse, _Mapping]] = ..., tool_name: _Optional[str] = ..., effect: _Optional[_Union[Effect, str]] = ..., epoch: _Optional[int] = ..., owner: _Optional[str] = ..., lease_until: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., approval: _Optional[_Union[Resolution, _Mapping]] = ...) -> None: ...

class ReadOutputRequest(_message.Message):
    __slots__ = ("output_ref", "offset", "limit", "pattern", "conversation_id")
    OUTPUT_REF_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    PATTERN_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_ID_FIELD_NUMBER: _ClassVar[int]
    output_ref: str
    offset: int
    limit: int
    pattern: str
    conversation_id: str
    def __init__(self, output_ref: _Optional[str] = ..., offset: _Optional[int] = ..., limit: _Optional[int] = ..., pattern: _Optional[str] = ..., conversation_id: _Optional[str] = ...) -> None: ...

class ReadOutputResponse(_message.Message):
    __slots__ = ("content", "total_chars", "next_offset", "complete", "data", "media_type", "total_bytes")
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    TOTAL_CHARS_FIELD_NUMBER: _ClassVar[int]
    NEXT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    MEDIA_TYPE_FIELD_NUMBER: _ClassVar[int]
    TOTAL_BYTES_FIELD_NUMBER: _ClassVar[int]
    content: str
    total_chars: int
    next_offset: int
    complete: bool
    data: bytes
    media_type: str
    total_bytes: int
    def __init__(self, content: _Optional[str] = ..., total_chars: _Optional[int] = ..., next_offset: _Optional[int] = ..., complete: _Optional[bool] = ..., data: _Optional[bytes] = ..., media_type: _Optional[str] = ..., total_bytes: _Optional[int] = ...) -> None: ...

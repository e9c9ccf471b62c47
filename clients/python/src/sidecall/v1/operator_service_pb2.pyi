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

class Verdict(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    VERDICT_UNSPECIFIED: _ClassVar[Verdict]
    VERDICT_RAN: _ClassVar[Verdict]
    VERDICT_RUNNING: _ClassVar[Verdict]
    VERDICT_NOT_RUN: _ClassVar[Verdict]
    VERDICT_UNKNOWN: _ClassVar[Verdict]
    VERDICT_FORGOTTEN: _ClassVar[Verdict]

class VerificationVerdict(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    VERIFICATION_VERDICT_UNSPECIFIED: _ClassVar[VerificationVerdict]
    VERIFICATION_VERDICT_INCONCLUSIVE: _ClassVar[VerificationVerdict]
    VERIFICATION_VERDICT_DONE: _ClassVar[VerificationVerdict]
    VERIFICATION_VERDICT_NOT_RUN: _ClassVar[VerificationVerdict]
    VERIFICATION_VERDICT_TOO_EARLY: _ClassVar[VerificationVerdict]
VERDICT_UNSPECIFIED: Verdict
VERDICT_RAN: Verdict
VERDICT_RUNNING: Verdict
VERDICT_NOT_RUN: Verdict
VERDICT_UNKNOWN: Verdict
VERDICT_FORGOTTEN: Verdict
VERIFICATION_VERDICT_UNSPECIFIED: VerificationVerdict
VERIFICATION_VERDICT_INCONCLUSIVE: VerificationVerdict
VERIFICATION_VERDICT_DONE: VerificationVerdict
VERIFICATION_VERDICT_NOT_RUN: VerificationVerdict
VERIFICATION_VERDICT_TOO_EARLY: VerificationVerdict

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
    __slots__ = ("executions", "next_page_token", "remembered_since", "search_keys")
    EXECUTIONS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    REMEMBERED_SINCE_FIELD_NUMBER: _ClassVar[int]
    SEARCH_KEYS_FIELD_NUMBER: _ClassVar[int]
    executions: _containers.RepeatedCompositeFieldContainer[FoundExecution]
    next_page_token: str
    remembered_since: _timestamp_pb2.Timestamp
    search_keys: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, executions: _Optional[_Iterable[_Union[FoundExecution, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., remembered_since: _Optional[_Union[datetime.datetime, _timestamp_pb2.Timestamp, _Mapping]] = ..., search_keys: _Optional[_Iterable[str]] = ...) -> None: ...

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

class ResolveExecutionRequest(_message.Message):
    __slots__ = ("conversation_id", "turn_id", "tool_use_id", "state", "reason", "content", "is_error", "resolved_by", "epoch")
    CONVERSATION_ID_FIELD_NUMBER: _ClassVar[int]
    TURN_ID_FIELD_NUMBER: _ClassVar[int]
    TOOL_USE_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    IS_ERROR_FIELD_NUMBER: _ClassVar[int]
    RESOLVED_BY_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    conversation_id: str
    turn_id: str
    tool_use_id: str
    state: _tool_service_pb2.ExecutionState
    reason: str
    content: str
    is_error: bool
    resolved_by: str
    epoch: int
    def __init__(self, conversation_id: _Optional[str] = ..., turn_id: _Optional[str] = ..., tool_use_id: _Optional[str] = ..., state: _Optional[_Union[_tool_service_pb2.ExecutionState, str]] = ..., reason: _Optional[str] = ..., content: _Optional[str] = ..., is_error: _Optional[bool] = ..., resolved_by: _Optional[str] = ..., epoch: _Optional[int] = ...) -> None: ...

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
    __slots__ = ("prompt_id", "arguments_json", "arguments_cut", "labels", "upstream_id")
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
    prompt_id: str
    arguments_json: str
    arguments_cut: bool
    labels: _containers.ScalarMap[str, str]
    upstream_id: str
    def __init__(self, prompt_id: _Optional[str] = ..., arguments_json: _Optional[str] = ..., arguments_cut: _Optional[bool] = ..., labels: _Optional[_Mapping[str, str]] = ..., upstream_id: _Optional[str] = ...) -> None: ...

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

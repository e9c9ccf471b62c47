import datetime

from google.protobuf import duration_pb2 as _duration_pb2
from sidecall.v1 import tool_service_pb2 as _tool_service_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class WorkerMessage(_message.Message):
    __slots__ = ("register", "heartbeat", "progress", "result", "leave")
    REGISTER_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    LEAVE_FIELD_NUMBER: _ClassVar[int]
    register: WorkerRegister
    heartbeat: WorkerHeartbeat
    progress: WorkerProgress
    result: WorkerResult
    leave: WorkerLeave
    def __init__(self, register: _Optional[_Union[WorkerRegister, _Mapping]] = ..., heartbeat: _Optional[_Union[WorkerHeartbeat, _Mapping]] = ..., progress: _Optional[_Union[WorkerProgress, _Mapping]] = ..., result: _Optional[_Union[WorkerResult, _Mapping]] = ..., leave: _Optional[_Union[WorkerLeave, _Mapping]] = ...) -> None: ...

class WorkerRegister(_message.Message):
    __slots__ = ("worker", "protocol_version", "max_in_flight", "tools", "backend", "client")
    WORKER_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    MAX_IN_FLIGHT_FIELD_NUMBER: _ClassVar[int]
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    BACKEND_FIELD_NUMBER: _ClassVar[int]
    CLIENT_FIELD_NUMBER: _ClassVar[int]
    worker: str
    protocol_version: int
    max_in_flight: int
    tools: _containers.RepeatedCompositeFieldContainer[WorkerTool]
    backend: str
    client: str
    def __init__(self, worker: _Optional[str] = ..., protocol_version: _Optional[int] = ..., max_in_flight: _Optional[int] = ..., tools: _Optional[_Iterable[_Union[WorkerTool, _Mapping]]] = ..., backend: _Optional[str] = ..., client: _Optional[str] = ...) -> None: ...

class WorkerTool(_message.Message):
    __slots__ = ("name", "description", "input_schema_json", "output_schema_json", "effect", "annotations", "sequential", "polling", "fails_cleanly", "cancel_with_caller", "attempt_timeout", "deadline")
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
    ANNOTATIONS_FIELD_NUMBER: _ClassVar[int]
    SEQUENTIAL_FIELD_NUMBER: _ClassVar[int]
    POLLING_FIELD_NUMBER: _ClassVar[int]
    FAILS_CLEANLY_FIELD_NUMBER: _ClassVar[int]
    CANCEL_WITH_CALLER_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_TIMEOUT_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_FIELD_NUMBER: _ClassVar[int]
    name: str
    description: str
    input_schema_json: str
    output_schema_json: str
    effect: _tool_service_pb2.Effect
    annotations: _containers.ScalarMap[str, str]
    sequential: bool
    polling: bool
    fails_cleanly: bool
    cancel_with_caller: bool
    attempt_timeout: _duration_pb2.Duration
    deadline: _duration_pb2.Duration
    def __init__(self, name: _Optional[str] = ..., description: _Optional[str] = ..., input_schema_json: _Optional[str] = ..., output_schema_json: _Optional[str] = ..., effect: _Optional[_Union[_tool_service_pb2.Effect, str]] = ..., annotations: _Optional[_Mapping[str, str]] = ..., sequential: _Optional[bool] = ..., polling: _Optional[bool] = ..., fails_cleanly: _Optional[bool] = ..., cancel_with_caller: _Optional[bool] = ..., attempt_timeout: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., deadline: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class WorkerHeartbeat(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class WorkerProgress(_message.Message):
    __slots__ = ("invocation_id", "note")
    INVOCATION_ID_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    invocation_id: str
    note: str
    def __init__(self, invocation_id: _Optional[str] = ..., note: _Optional[str] = ...) -> None: ...

class WorkerResult(_message.Message):
    __slots__ = ("invocation_id", "content", "structured_content_json", "blocks", "is_error", "not_run", "code", "retry_after")
    INVOCATION_ID_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    STRUCTURED_CONTENT_JSON_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    IS_ERROR_FIELD_NUMBER: _ClassVar[int]
    NOT_RUN_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    RETRY_AFTER_FIELD_NUMBER: _ClassVar[int]
    invocation_id: str
    content: str
    structured_content_json: str
    blocks: _containers.RepeatedCompositeFieldContainer[_tool_service_pb2.ContentBlock]
    is_error: bool
    not_run: bool
    code: str
    retry_after: _duration_pb2.Duration
    def __init__(self, invocation_id: _Optional[str] = ..., content: _Optional[str] = ..., structured_content_json: _Optional[str] = ..., blocks: _Optional[_Iterable[_Union[_tool_service_pb2.ContentBlock, _Mapping]]] = ..., is_error: _Optional[bool] = ..., not_run: _Optional[bool] = ..., code: _Optional[str] = ..., retry_after: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ...) -> None: ...

class WorkerLeave(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class WorkerCommand(_message.Message):
    __slots__ = ("registered", "invoke", "cancel", "goodbye")
    REGISTERED_FIELD_NUMBER: _ClassVar[int]
    INVOKE_FIELD_NUMBER: _ClassVar[int]
    CANCEL_FIELD_NUMBER: _ClassVar[int]
    GOODBYE_FIELD_NUMBER: _ClassVar[int]
    registered: WorkerRegistered
    invoke: WorkerInvoke
    cancel: WorkerCancel
    goodbye: WorkerGoodbye
    def __init__(self, registered: _Optional[_Union[WorkerRegistered, _Mapping]] = ..., invoke: _Optional[_Union[WorkerInvoke, _Mapping]] = ..., cancel: _Optional[_Union[WorkerCancel, _Mapping]] = ..., goodbye: _Optional[_Union[WorkerGoodbye, _Mapping]] = ...) -> None: ...

class WorkerRegistered(_message.Message):
    __slots__ = ("heartbeat_interval", "tools", "max_in_flight", "max_message_bytes")
    HEARTBEAT_INTERVAL_FIELD_NUMBER: _ClassVar[int]
    TOOLS_FIELD_NUMBER: _ClassVar[int]
    MAX_IN_FLIGHT_FIELD_NUMBER: _ClassVar[int]
    MAX_MESSAGE_BYTES_FIELD_NUMBER: _ClassVar[int]
    heartbeat_interval: _duration_pb2.Duration
    tools: _containers.RepeatedCompositeFieldContainer[WorkerAccepted]
    max_in_flight: int
    max_message_bytes: int
    def __init__(self, heartbeat_interval: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., tools: _Optional[_Iterable[_Union[WorkerAccepted, _Mapping]]] = ..., max_in_flight: _Optional[int] = ..., max_message_bytes: _Optional[int] = ...) -> None: ...

class WorkerAccepted(_message.Message):
    __slots__ = ("name", "tool_name", "effect", "left_out")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TOOL_NAME_FIELD_NUMBER: _ClassVar[int]
    EFFECT_FIELD_NUMBER: _ClassVar[int]
    LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    name: str
    tool_name: str
    effect: _tool_service_pb2.Effect
    left_out: bool
    def __init__(self, name: _Optional[str] = ..., tool_name: _Optional[str] = ..., effect: _Optional[_Union[_tool_service_pb2.Effect, str]] = ..., left_out: _Optional[bool] = ...) -> None: ...

class WorkerInvoke(_message.Message):
    __slots__ = ("invocation_id", "tool", "arguments_json", "tool_use_id", "conversation_id", "turn_id", "idempotency_key", "attempt", "deadline", "traceparent", "baggage")
    INVOCATION_ID_FIELD_NUMBER: _ClassVar[int]
    TOOL_FIELD_NUMBER: _ClassVar[int]
    ARGUMENTS_JSON_FIELD_NUMBER: _ClassVar[int]
    TOOL_USE_ID_FIELD_NUMBER: _ClassVar[int]
    CONVERSATION_ID_FIELD_NUMBER: _ClassVar[int]
    TURN_ID_FIELD_NUMBER: _ClassVar[int]
    IDEMPOTENCY_KEY_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    DEADLINE_FIELD_NUMBER: _ClassVar[int]
    TRACEPARENT_FIELD_NUMBER: _ClassVar[int]
    BAGGAGE_FIELD_NUMBER: _ClassVar[int]
    invocation_id: str
    tool: str
    arguments_json: str
    tool_use_id: str
    conversation_id: str
    turn_id: str
    idempotency_key: str
    attempt: int
    deadline: _duration_pb2.Duration
    traceparent: str
    baggage: str
    def __init__(self, invocation_id: _Optional[str] = ..., tool: _Optional[str] = ..., arguments_json: _Optional[str] = ..., tool_use_id: _Optional[str] = ..., conversation_id: _Optional[str] = ..., turn_id: _Optional[str] = ..., idempotency_key: _Optional[str] = ..., attempt: _Optional[int] = ..., deadline: _Optional[_Union[datetime.timedelta, _duration_pb2.Duration, _Mapping]] = ..., traceparent: _Optional[str] = ..., baggage: _Optional[str] = ...) -> None: ...

class WorkerCancel(_message.Message):
    __slots__ = ("invocation_id",)
    INVOCATION_ID_FIELD_NUMBER: _ClassVar[int]
    invocation_id: str
    def __init__(self, invocation_id: _Optional[str] = ...) -> None: ...

class WorkerGoodbye(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

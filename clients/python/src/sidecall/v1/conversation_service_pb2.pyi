from sidecall.v1 import tool_service_pb2 as _tool_service_pb2
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

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
    __slots__ = ("budget",)
    BUDGET_FIELD_NUMBER: _ClassVar[int]
    budget: _tool_service_pb2.Budget
    def __init__(self, budget: _Optional[_Union[_tool_service_pb2.Budget, _Mapping]] = ...) -> None: ...

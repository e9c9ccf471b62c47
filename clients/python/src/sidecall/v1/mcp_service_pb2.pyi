from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class ForwardRequest(_message.Message):
    __slots__ = ("profile", "method", "params_json", "follow_id")
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    METHOD_FIELD_NUMBER: _ClassVar[int]
    PARAMS_JSON_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_ID_FIELD_NUMBER: _ClassVar[int]
    profile: str
    method: str
    params_json: str
    follow_id: str
    def __init__(self, profile: _Optional[str] = ..., method: _Optional[str] = ..., params_json: _Optional[str] = ..., follow_id: _Optional[str] = ...) -> None: ...

class ForwardResponse(_message.Message):
    __slots__ = ("result_json", "error_json")
    RESULT_JSON_FIELD_NUMBER: _ClassVar[int]
    ERROR_JSON_FIELD_NUMBER: _ClassVar[int]
    result_json: str
    error_json: str
    def __init__(self, result_json: _Optional[str] = ..., error_json: _Optional[str] = ...) -> None: ...

class AnswerRequest(_message.Message):
    __slots__ = ("question_id", "result_json", "refusal")
    QUESTION_ID_FIELD_NUMBER: _ClassVar[int]
    RESULT_JSON_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    question_id: str
    result_json: str
    refusal: str
    def __init__(self, question_id: _Optional[str] = ..., result_json: _Optional[str] = ..., refusal: _Optional[str] = ...) -> None: ...

class AnswerResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class FollowRequest(_message.Message):
    __slots__ = ("profile",)
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    profile: str
    def __init__(self, profile: _Optional[str] = ...) -> None: ...

class FollowResponse(_message.Message):
    __slots__ = ("method", "params_json", "follow_id")
    METHOD_FIELD_NUMBER: _ClassVar[int]
    PARAMS_JSON_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_ID_FIELD_NUMBER: _ClassVar[int]
    method: str
    params_json: str
    follow_id: str
    def __init__(self, method: _Optional[str] = ..., params_json: _Optional[str] = ..., follow_id: _Optional[str] = ...) -> None: ...

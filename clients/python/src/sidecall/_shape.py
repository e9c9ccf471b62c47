"""What a type of Python is in JSON: the schema of its values, and how one is read.

The types of the language are known here, and pydantic, where it is installed, is asked
about all others.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import enum
import functools
import math
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any

Schema = dict[str, Any]
Read = Callable[[Any], Any]


class NoSchema(Exception):
    """A type that JSON has nothing for; the text says which."""


@dataclasses.dataclass(frozen=True)
class Shape:
    """A type in JSON. ``read`` makes a value of what JSON holds, or raises ValueError."""

    schema: Schema
    read: Read


@dataclasses.dataclass(frozen=True)
class Field:
    """A parameter, or a field of a dataclass: its type, its default if it has one, and
    the name under which JSON has it."""

    name: str
    type: Any
    required: bool
    default: Any = None


def object_of(fields: list[Field]) -> Shape:
    """An object that has these fields, which are read into a dict."""
    found = _Shapes()
    try:
        shape = found.of_fields(fields, dict)
    except NoSchema as e:
        shape, defs = _by_pydantic(fields, e)
    else:
        defs = found.defs
    return Shape({**shape.schema, "$defs": defs}, shape.read) if defs else shape


def hints_of(of: Any, names: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The types in a signature or class, resolved, with what Annotated says of them."""
    try:
        return typing.get_type_hints(of, localns=dict(names or {}), include_extras=True)
    except NameError as e:
        raise NoSchema(f"its type {e.name!r} cannot be found from its module") from e
    except Exception as e:  # what stands in an annotation may be anything
        raise NoSchema(f"its types cannot be read: {e}") from e


class _Shapes:
    """Shapes of types that may refer to each other."""

    def __init__(self) -> None:
        #: Schemas of classes that contain themselves.
        self.defs: dict[str, Schema] = {}
        self._open: dict[Any, str] = {}  # classes that are being looked at, and their names
        self._met: set[str] = set()  # those that were met again meanwhile
        self._done: dict[Any, Shape] = {}

    def of(self, t: Any) -> Shape:
        if t is None or t is type(None):
            return Shape({"type": "null"}, _checked(type(None), "null"))
        if t in (Any, object):
            return Shape({}, lambda value: value)
        if isinstance(t, type) and t in _PLAIN:
            return _PLAIN[t]
        origin = typing.get_origin(t)
        if origin is typing.Annotated:
            return self._annotated(t)
        if origin in (typing.Union, types.UnionType):
            return self._union(typing.get_args(t))
        if origin is typing.Literal:
            return _one_of([(value, value) for value in typing.get_args(t)], t)
        if (collection := _COLLECTIONS.get(origin or t)) is not None:
            return self._collection(collection, t)
        if (origin or t) in (dict, collections.abc.Mapping, collections.abc.MutableMapping):
            return self._mapping(t)
        return self._class(t)

    def _class(self, t: Any) -> Shape:
        if hasattr(t, "__supertype__"):  # of a NewType
            return self.of(t.__supertype__)
        if isinstance(value := getattr(t, "__value__", None), object) and type(t).__name__ == "TypeAliasType":
            return self.of(value)
        if isinstance(t, type) and issubclass(t, enum.Enum):
            return _one_of([(member.value, member) for member in t], t)
        if isinstance(t, type) and (dataclasses.is_dataclass(t) or typing.is_typeddict(t)) and not hasattr(t, "__pydantic_validator__"):
            return self._recursive(t)
        raise NoSchema(f"JSON has nothing for {shown(t)}")

    def _annotated(self, t: Any) -> Shape:
        inner, *said = typing.get_args(t)
        shape = self.of(inner)
        texts = [text for text in said if isinstance(text, str)]
        if len(texts) < len(said):
            raise NoSchema(f"JSON has nothing for {shown(t)}")
        return Shape({**shape.schema, "description": " ".join(texts)}, shape.read)

    def _union(self, members: tuple[Any, ...]) -> Shape:
        shapes = [self.of(member) for member in members]

        def read(value: Any) -> Any:
            for shape in shapes:
                try:
                    return shape.read(value)
                except ValueError:
                    pass
            raise ValueError(f"want one of {len(shapes)} kinds, got {_kind(value)}")

        rest = [shape.schema for shape in shapes if shape.schema != {"type": "null"}]
        if len(rest) == 1 and len(shapes) == 2 and isinstance(rest[0].get("type"), str) and "enum" not in rest[0]:
            return Shape({**rest[0], "type": [rest[0]["type"], "null"]}, read)
        return Shape({"anyOf": [shape.schema for shape in shapes]}, read)

    def _collection(self, make: Callable[[Any], Any], t: Any) -> Shape:
        args = typing.get_args(t)
        if make is tuple and args and args[-1] is not ...:
            return self._row(args)
        item = self.of(args[0]) if args else Shape({}, lambda value: value)
        schema: Schema = {"type": "array", **({"items": item.schema} if item.schema else {})}
        if make in (set, frozenset):
            schema["uniqueItems"] = True

        def read(value: Any) -> Any:
            if not isinstance(value, list):
                raise ValueError(f"want an array, got {_kind(value)}")
            return make([item.read(one) for one in value])

        return Shape(schema, read)

    def _row(self, members: tuple[Any, ...]) -> Shape:
        shapes = [self.of(member) for member in members]
        size = len(shapes)

        def read(value: Any) -> Any:
            if not isinstance(value, list) or len(value) != size:
                raise ValueError(f"want an array of {size}, got {_kind(value)}")
            return tuple(shape.read(one) for shape, one in zip(shapes, value, strict=True))

        return Shape(
            {"type": "array", "prefixItems": [s.schema for s in shapes], "items": False, "minItems": size, "maxItems": size}, read
        )

    def _mapping(self, t: Any) -> Shape:
        key, item = typing.get_args(t) or (str, Any)
        if key not in (str, Any):
            raise NoSchema(f"the keys of {shown(t)} are no str, as those of JSON are")
        shape = self.of(item)

        def read(value: Any) -> Any:
            if not isinstance(value, dict):
                raise ValueError(f"want an object, got {_kind(value)}")
            return {name: shape.read(one) for name, one in value.items()}

        return Shape({"type": "object", **({"additionalProperties": shape.schema} if shape.schema else {})}, read)

    def _recursive(self, t: type) -> Shape:
        """A class with fields, which may contain itself."""
        if (done := self._done.get(t)) is not None:
            return done
        if (name := self._open.get(t)) is not None:
            self._met.add(name)
            return Shape({"$ref": f"#/$defs/{name}"}, functools.partial(self._later, t))
        name, n = t.__name__, 1  # two classes may have one name
        while name in self.defs or name in self._open.values():
            n += 1
            name = f"{t.__name__}{n}"
        self._open[t] = name
        shape = self.of_fields(*(_entries(t) if typing.is_typeddict(t) else _attributes(t)))
        del self._open[t]
        if name in self._met:
            self.defs[name] = shape.schema
            shape = Shape({"$ref": f"#/$defs/{name}"}, shape.read)
        self._done[t] = shape
        return shape

    def _later(self, t: type, value: Any) -> Any:
        return self._done[t].read(value)

    def of_fields(self, fields: list[Field], make: Callable[..., Any]) -> Shape:
        shapes = {}
        for field in fields:
            try:
                shapes[field.name] = self.of(field.type)
            except NoSchema as e:
                raise NoSchema(f"{field.name}: {e}") from None
        return _object(fields, shapes, make)


def _object(fields: list[Field], shapes: Mapping[str, Shape], make: Callable[..., Any]) -> Shape:
    required = [field.name for field in fields if field.required]

    def read(value: Any) -> Any:
        if not isinstance(value, dict):
            raise ValueError(f"want an object, got {_kind(value)}")
        got = {}
        for name, one in value.items():
            if name not in shapes:
                raise ValueError(f"{name}: there is no such argument")
            try:
                got[name] = shapes[name].read(one)
            except (ValueError, TypeError, OverflowError) as e:
                raise ValueError(f"{name}: {e}") from e
        for name in required:
            if name not in got:
                raise ValueError(f"{name}: it is required")
        return make(**got)

    properties = {field.name: _with_default(field, shapes[field.name].schema) for field in fields}
    return Shape(
        {"type": "object", "properties": properties, **({"required": required} if required else {}), "additionalProperties": False},
        read,
    )


def _with_default(field: Field, schema: Schema) -> Schema:
    default = field.default.value if isinstance(field.default, enum.Enum) else field.default
    if field.required or default is None or not isinstance(default, (str, int, float)) or "$ref" in schema:
        return schema
    return {**schema, "default": default} if math.isfinite(default if isinstance(default, float) else 0) else schema


def _attributes(t: type) -> tuple[list[Field], Callable[..., Any]]:
    """The fields of a dataclass that are given when one is made."""
    hints = hints_of(t)
    fields = []
    for f in dataclasses.fields(t):
        if f.init:
            missing = f.default is dataclasses.MISSING
            optional = not missing or f.default_factory is not dataclasses.MISSING
            fields.append(Field(f.name, hints[f.name], not optional, None if missing else f.default))
    return fields, t


def _entries(t: Any) -> tuple[list[Field], Callable[..., Any]]:
    """The keys of a TypedDict."""
    fields = []
    for name, hint in hints_of(t).items():
        special = str(typing.get_origin(hint))
        if special.endswith("Required"):  # one of two, which Python 3.10 has in typing_extensions
            fields.append(Field(name, typing.get_args(hint)[0], not special.endswith("NotRequired")))
        else:
            fields.append(Field(name, hint, name in t.__required_keys__))
    return fields, dict


def _by_pydantic(fields: list[Field], unknown: NoSchema) -> tuple[Shape, dict[str, Schema]]:
    """An object whose fields pydantic knows, and the definitions that they share."""
    try:
        from pydantic import PydanticUserError, TypeAdapter, ValidationError  # noqa: PLC0415
        from pydantic.errors import PydanticInvalidForJsonSchema  # noqa: PLC0415
    except ImportError:
        raise NoSchema(f"{unknown} (pydantic, which might, is not installed)") from None
    adapters: dict[str, TypeAdapter[Any]] = {}
    for field in fields:
        try:
            adapters[field.name] = TypeAdapter(field.type)
            adapters[field.name].json_schema()
        except (PydanticUserError, PydanticInvalidForJsonSchema) as e:
            raise NoSchema(f"{field.name}: {str(e).splitlines()[0]}") from e
    schemas, shared = TypeAdapter.json_schemas([(name, "validation", adapter) for name, adapter in adapters.items()])

    def reader(adapter: TypeAdapter[Any]) -> Read:
        def read(value: Any) -> Any:
            try:
                return adapter.validate_python(value)
            except ValidationError as e:
                raise ValueError("; ".join(f"{'.'.join(map(str, x['loc']))} {x['msg']}".strip() for x in e.errors())) from e

        return read

    shapes = {}
    for field in fields:
        schema = dict(schemas[field.name, "validation"])
        said = [text for text in typing.get_args(field.type)[1:] if isinstance(text, str)]
        if said and typing.get_origin(field.type) is typing.Annotated:
            schema["description"] = " ".join(said)
        shapes[field.name] = Shape(schema, reader(adapters[field.name]))
    return _object(fields, shapes, dict), dict(shared.get("$defs", {}))


def _one_of(pairs: list[tuple[Any, Any]], t: Any) -> Shape:
    """One of some values, each with what it is in Python."""
    values = [value for value, _ in pairs]
    kinds = {_kind(value) for value in values}
    if not values or not kinds <= {"a string", "an integer", "a boolean", "null"}:
        raise NoSchema(f"the values of {shown(t)} are not all text, integers or booleans")

    def read(value: Any) -> Any:
        for known, meant in pairs:
            if known == value and type(known) is type(value):
                return meant
        raise ValueError(f"want one of {values}")

    (kind,) = kinds if len(kinds) == 1 else (None,)
    return Shape({**({"type": _TYPES[kind]} if kind else {}), "enum": values}, read)


def _checked(t: type, wanted: str) -> Read:
    def read(value: Any) -> Any:
        if type(value) is not t:
            raise ValueError(f"want {wanted}, got {_kind(value)}")
        return value

    return read


def _integer(value: Any) -> int:
    if isinstance(value, float) and value.is_integer():  # 5.0 is an integer of JSON
        return int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"want an integer, got {_kind(value)}")
    return value


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"want a number, got {_kind(value)}")
    return float(value)


_PLAIN: dict[type, Shape] = {
    str: Shape({"type": "string"}, _checked(str, "a string")),
    bool: Shape({"type": "boolean"}, _checked(bool, "a boolean")),
    int: Shape({"type": "integer"}, _integer),
    float: Shape({"type": "number"}, _number),
}

_COLLECTIONS: dict[Any, Callable[[Any], Any]] = {
    list: list, set: set, frozenset: frozenset, tuple: tuple,
    collections.abc.Sequence: list, collections.abc.Iterable: list, collections.abc.Collection: list,
}  # fmt: skip

_KINDS = {
    str: "a string", bool: "a boolean", int: "an integer", float: "a number", type(None): "null", list: "an array",
    dict: "an object",
}  # fmt: skip

_TYPES = {"a string": "string", "an integer": "integer", "a boolean": "boolean", "null": "null"}


def _kind(value: Any) -> str:
    """What a value is called in JSON."""
    return _KINDS.get(type(value), f"a {type(value).__name__}")


def shown(t: Any) -> str:
    """A type as an error shows it."""
    is_class = isinstance(t, type) and typing.get_origin(t) is None  # list[int] is both in Python 3.10
    return t.__qualname__ if is_class else str(t).replace("typing.", "")

"""What types are in JSON, and how their values are read."""

from __future__ import annotations

import datetime
import enum
import json
import sys
import unittest
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, NewType, Optional, TypedDict
from unittest import mock

from pydantic import BaseModel
from pydantic import Field as Fields

from sidecall import Context, Failure, Worker, WrongTool, pb
from sidecall.v1 import worker_service_pb2 as worker_pb


class Size(enum.Enum):
    SMALL = "s"
    LARGE = "l"


@dataclass
class Item:
    sku: str
    count: int = 1
    tags: list[str] = field(default_factory=list)


@dataclass
class Tree:
    name: str
    children: list[Tree] = field(default_factory=list)


class Address(TypedDict, total=False):
    street: str


Cents = NewType("Cents", int)


class Model(BaseModel):
    when: datetime.date
    n: int = Fields(ge=1)


def declared(function: Any, **said: Any) -> worker_pb.WorkerTool:
    w = Worker("w")
    w.tool(**said)(function)
    return next(iter(w.functions.values())).declared


def schema(function: Any) -> Any:
    return json.loads(declared(function).input_schema_json)


def called(function: Any, arguments: Any, **said: Any) -> Any:
    w = Worker("w")
    w.tool(**said)(function)
    return next(iter(w.functions.values())).call(arguments, Context(worker_pb.WorkerInvoke(idempotency_key="key"), print))


class ShapeTest(unittest.TestCase):
    def test_types_and_what_they_are_in_json(self) -> None:
        string, integer = {"type": "string"}, {"type": "integer"}
        item = {
            "type": "object", "required": ["sku"], "additionalProperties": False,
            "properties": {"sku": string, "count": {**integer, "default": 1}, "tags": {"type": "array", "items": string}},
        }  # fmt: skip
        for t, wanted, given, read in (
            (str, string, "a", "a"),
            (int, integer, 5.0, 5),
            (float, {"type": "number"}, 5, 5.0),
            (bool, {"type": "boolean"}, True, True),
            (Any, {}, {"a": [1]}, {"a": [1]}),
            (Cents, integer, 5, 5),
            (Annotated[int, "in cents"], {**integer, "description": "in cents"}, 5, 5),
            (Optional[str], {"type": ["string", "null"]}, None, None),  # noqa: UP045
            (str | int, {"anyOf": [string, integer]}, 5, 5),
            (Literal["a", "b"] | None, {"anyOf": [{"type": "string", "enum": ["a", "b"]}, {"type": "null"}]}, "b", "b"),
            (Literal[1, "b"], {"enum": [1, "b"]}, 1, 1),
            (Size, {"type": "string", "enum": ["s", "l"]}, "l", Size.LARGE),
            (list, {"type": "array"}, [1, "a"], [1, "a"]),
            (Sequence[int], {"type": "array", "items": integer}, [1], [1]),
            (set[str], {"type": "array", "items": string, "uniqueItems": True}, ["a"], {"a"}),
            (tuple[int, ...], {"type": "array", "items": integer}, [1, 2], (1, 2)),
            (
                tuple[int, str],
                {"type": "array", "prefixItems": [integer, string], "items": False, "minItems": 2, "maxItems": 2},
                [1, "a"], (1, "a"),
            ),
            (dict, {"type": "object"}, {"a": 1}, {"a": 1}),
            (dict[str, Size], {"type": "object", "additionalProperties": {"type": "string", "enum": ["s", "l"]}}, {"a": "s"}, {"a": Size.SMALL}),
            (Item, item, {"sku": "A", "count": 2}, Item("A", 2)),
            (list[Item], {"type": "array", "items": item}, [{"sku": "A"}], [Item("A")]),
            (Address, {"type": "object", "properties": {"street": string}, "additionalProperties": False}, {}, {}),
        ):  # fmt: skip
            with self.subTest(t):

                def f(value):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
                    return value

                f.__annotations__["value"] = t
                self.assertEqual(schema(f)["properties"]["value"], wanted)
                self.assertEqual(called(f, {"value": given}), read)

    def test_a_class_that_contains_itself(self) -> None:
        def plant(tree: Tree, other: Tree | None = None) -> Tree:
            return tree

        found = schema(plant)
        self.assertEqual(found["properties"]["tree"], {"$ref": "#/$defs/Tree"})
        self.assertEqual(found["$defs"]["Tree"]["properties"]["children"]["items"], {"$ref": "#/$defs/Tree"})
        leaf: Any = {"name": "a", "children": [{"name": "b"}]}
        self.assertEqual(called(plant, {"tree": leaf}), Tree("a", [Tree("b")]))

    def test_what_is_required_and_what_is_not(self) -> None:
        def f(a: int, /, b: str = "x", *, c: Size = Size.SMALL, d: list[int] | None = None, context: Context) -> Any:
            return a, b, c, d, context.idempotency_key

        found = schema(f)
        self.assertEqual(found["required"], ["a"])
        self.assertEqual([found["properties"][n].get("default") for n in "abcd"], [None, "x", "s", None])
        self.assertNotIn("context", found["properties"])
        self.assertIs(found["additionalProperties"], False)
        self.assertEqual(called(f, {"a": 1, "d": [2]}), (1, "x", Size.SMALL, [2], "key"))

    def test_models_of_pydantic(self) -> None:
        def f(one: Model, more: list[Model] = [], plain: Annotated[int, "any"] = 3) -> Any:  # noqa: B006
            return one

        found = schema(f)
        self.assertEqual(found["properties"]["one"], {"$ref": "#/$defs/Model"})
        self.assertEqual(found["$defs"]["Model"]["properties"]["n"]["minimum"], 1)
        self.assertEqual(found["properties"]["plain"]["description"], "any")
        one = Model(when=datetime.date(2026, 11, 23), n=1)
        self.assertEqual(called(f, {"one": {"when": "2026-11-23", "n": 1}}), one)
        with self.assertRaisesRegex(Failure, "one: n Input should be greater than or equal to 1") as caught:
            called(f, {"one": {"when": "2026-11-23", "n": 0}})
        self.assertEqual((caught.exception.code, caught.exception.not_run), ("INVALID_ARGS", True))

    def test_arguments_that_do_not_fit_are_told_before_anything_is_done(self) -> None:
        ran = []

        def f(a: int, items: list[Item] = []) -> None:  # noqa: B006
            ran.append(a)

        for arguments, says in (
            ({}, "a: it is required"),
            ({"a": "1"}, "a: want an integer, got a string"),
            ({"a": True}, "a: want an integer, got a boolean"),
            ({"a": 1, "b": 2}, "b: there is no such argument"),
            ({"a": 1, "items": [{"sku": 1}]}, "items: sku: want a string, got an integer"),
            ({"a": 1, "items": {}}, "items: want an array, got an object"),
        ):
            with self.subTest(says), self.assertRaisesRegex(Failure, says) as caught:
                called(f, arguments)
            self.assertTrue(caught.exception.not_run)
        self.assertEqual(ran, [])


class ToolTest(unittest.TestCase):
    def test_what_a_sidecar_is_told_of_a_function(self) -> None:
        def refund(order_id: str) -> str:
            """Refund an order.

            Once."""
            return order_id

        tool = declared(refund, effect="keyed", sequential=True, attempt_timeout=2.5, output_schema={"type": "string"}, annotations={"a": "b"})
        self.assertEqual((tool.name, tool.description, tool.effect), ("refund", "Refund an order.\n\nOnce.", pb.EFFECT_KEYED))
        self.assertEqual((tool.sequential, tool.polling, tool.attempt_timeout.ToMilliseconds()), (True, False, 2500))
        self.assertEqual((tool.output_schema_json, dict(tool.annotations)), ('{"type": "string"}', {"a": "b"}))
        self.assertEqual(declared(refund).effect, pb.EFFECT_NON_IDEMPOTENT)
        self.assertEqual(declared(refund, name="other", description="D").name, "other")

    def test_it_stays_the_function_that_it_is(self) -> None:
        w = Worker("w")

        @w.tool
        def double(n: int) -> int:
            return 2 * n

        self.assertEqual(double(2), 4)

    def test_a_schema_of_ones_own(self) -> None:
        def f(context: Context, **arguments: Any) -> Any:
            return arguments, context.idempotency_key

        own = {"type": "object", "properties": {"a": {"type": "integer", "minimum": 1}}}
        self.assertEqual(json.loads(declared(f, input_schema=own).input_schema_json), own)
        self.assertEqual(called(f, {"a": 1}, input_schema=own), ({"a": 1}, "key"))

    def test_what_cannot_be_a_tool_is_said_in_one_sentence_and_is_none(self) -> None:
        def untyped(a):  # type: ignore[no-untyped-def] # noqa: ANN001, ANN202
            return a

        def many(*a: int) -> None: ...

        def odd(a: Worker) -> None: ...

        def deep(a: list[dict[str, Worker]]) -> None: ...

        def nowhere(a: Missing) -> None: ...  # type: ignore[name-defined] # noqa: F821

        def fine(a: int) -> None: ...

        def yields() -> Iterator[int]:
            yield 1

        async def yields_async() -> AsyncIterator[int]:
            yield 1

        for function, said, says in (
            (untyped, {}, "the function untyped cannot be a tool: its parameter a has no type"),
            (many, {}, r"its parameter \*a: .* takes any number of arguments"),
            (odd, {}, "a: .*Worker"),
            (deep, {}, "a: .*Worker"),
            (nowhere, {}, "its type 'Missing' cannot be found"),
            (fine, {"effect": "keyd"}, "effect: there is no effect 'keyd'. Did you mean keyed"),
            (fine, {"efect": "keyed"}, "efect: there is no such setting. Did you mean effect"),
            (fine, {"name": "a b"}, r"name: want 1 to 64 of \[A-Za-z0-9_-\], got 'a b'"),
            (fine, {"deadline": "soon"}, "deadline: want seconds or a timedelta, got 'soon'"),
            (fine, {"input_schema": "object"}, "input_schema: want a JSON Schema as a dict, got a str"),
            (fine, {"output_schema": {"a": object()}}, "output_schema: want what JSON can hold"),
            (5, {}, "want a function, got 5"),
            (yields, {}, "the function yields cannot be a tool: it yields"),
            (yields_async, {"name": "y"}, "the function y cannot be a tool: it yields"),
        ):
            w = Worker("w")
            with self.subTest(says), self.assertRaisesRegex(WrongTool, says) as caught:
                w.tool(**said)(function)  # type: ignore[arg-type]
            self.assertNotIn("\n", str(caught.exception))
            self.assertEqual(w.functions, {})

    def test_a_name_that_is_taken(self) -> None:
        w = Worker("w")
        w.tool(name="f")(len_of)
        with self.assertRaisesRegex(WrongTool, "the function f cannot be a tool: there is one of that name"):
            w.tool(name="f")(len_of)
        self.assertEqual(len(w.functions), 1)

    def test_without_pydantic(self) -> None:
        with mock.patch.dict(sys.modules, {"pydantic": None}):
            self.assertEqual(declared(len_of).name, "len_of")

            def keys(a: dict[int, str]) -> None: ...

            with self.assertRaisesRegex(WrongTool, r"a: the keys of dict\[int, str\] are no str"):
                declared(keys)

            def values(a: Literal[b"x"]) -> None: ...

            with self.assertRaisesRegex(WrongTool, "a: the values of Literal.* are not all text, integers or booleans"):
                declared(values)

            def f(a: Model) -> None: ...

            with self.assertRaisesRegex(WrongTool, r"a: JSON has nothing for Model \(pydantic, which might, is not installed\)"):
                declared(f)


def len_of(a: str) -> int:
    return len(a)


if __name__ == "__main__":
    unittest.main()

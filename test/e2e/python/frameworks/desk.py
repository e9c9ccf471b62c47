"""What the tests of the adapters share: a sidecar with a desk that takes payments."""

from __future__ import annotations

import asyncio
import json
import tempfile
import unittest
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import grpc
from sidecall import Context, Failure, Sidecall
from sidecall.v1 import operator_service_pb2, operator_service_pb2_grpc

from provider import Provider, Say

#: Each payment is an object in a file: one more means that it was made once more.
PAY = "tee -a payments.jsonl && echo >>payments.jsonl"

OBJECT: dict[str, Any] = {"type": "object", "additionalProperties": False}


def config(directory: Path) -> dict[str, Any]:
    return {
        "store": {"embedded": {"path": str(directory / "sidecall.db")}},
        "pins": {"path": str(directory / "sidecall.pins")},
        "backends": {"desk": {"exec": {"dir": str(directory), "env": ["PATH"]}}},
        "tools": {
            "pay": {
                "backend": "desk", "description": "Pay.", "effect": "non_idempotent",
                "exec": {"argv": ["sh", "-c", PAY]},
                "input_schema": {
                    **OBJECT, "required": ["cents"],
                    "properties": {"cents": {"type": "integer", "minimum": 1}, "how": {"type": "string", "enum": ["cash", "card"]}},
                },
            },
            "paid": {
                "backend": "desk", "description": "What was paid.", "effect": "read_only",
                "exec": {"argv": ["sh", "-c", "cat payments.jsonl 2>/dev/null || true"]}, "input_schema": OBJECT,
            },
            # Has an argument that LangGraph has a use of its own for.
            "start": {
                "backend": "desk", "description": "Start.", "effect": "read_only", "exec": {"argv": ["cat"]},
                "input_schema": {**OBJECT, "properties": {"runtime": {"type": "string"}}},
            },
            # Says that it has begun, and is done when the test says so.
            "wait": {
                "backend": "desk", "description": "Wait.", "effect": "read_only",
                "exec": {"argv": ["sh", "-c", "echo >>begun; cat gate"]}, "input_schema": OBJECT,
            },
        },
    }  # fmt: skip


class DeskTest(unittest.TestCase):
    """Each test has a sidecar of its own, and each process it starts is ended."""

    #: Further backends of the sidecar, and what is said of its tools besides.
    backends: ClassVar[dict[str, Any]] = {}
    of_tools: ClassVar[dict[str, dict[str, Any]]] = {}

    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory(prefix="desk-")
        self.addCleanup(directory.cleanup)
        self.directory = Path(directory.name)
        desk = config(self.directory)
        desk["backends"].update(self.backends)
        desk["operator"] = f"unix://{self.directory}/op.sock"
        for name, said in self.of_tools.items():
            desk["tools"][name].update(said)
        self.s = Sidecall.launch(desk)
        self.addCleanup(self.s.close)
        #: The calls of each request, and the results of each answer.
        self.batches: list[list[Any]] = []
        self.rpcs: list[Any] = []  # those that are awaited
        self.answers: list[list[Any]] = []
        self._count()

    def approve(self, call: Mapping[str, Any]) -> None:
        """Allows a call that waits, as a person does at the operator's socket."""
        with grpc.insecure_channel(f"unix://{self.directory}/op.sock") as channel:
            operator_service_pb2_grpc.OperatorServiceStub(channel).ApproveExecution(
                operator_service_pb2.ApproveExecutionRequest(
                    conversation_id=call["conversation_id"], turn_id=call["turn_id"], tool_use_id=call["tool_use_id"],
                    decided_by="ada", reason="asked the customer",
                )
            )  # fmt: skip

    def deny(self, call: Mapping[str, Any]) -> None:
        """Denies it."""
        with grpc.insecure_channel(f"unix://{self.directory}/op.sock") as channel:
            operator_service_pb2_grpc.OperatorServiceStub(channel).DenyExecution(
                operator_service_pb2.DenyExecutionRequest(
                    conversation_id=call["conversation_id"], turn_id=call["turn_id"], tool_use_id=call["tool_use_id"],
                    decided_by="ada", reason="paid already",
                )
            )  # fmt: skip

    def held_calls(self) -> list[Any]:
        """The calls that wait, as an operator is shown them."""
        with grpc.insecure_channel(f"unix://{self.directory}/op.sock") as channel:
            listed = operator_service_pb2_grpc.OperatorServiceStub(channel).ListHeld(operator_service_pb2.ListHeldRequest())
            return list(listed.executions)

    def payments(self) -> list[dict[str, Any]]:
        file = self.directory / "payments.jsonl"
        rest = file.read_text().strip() if file.exists() else ""
        found = []
        while rest:  # two at once may share a line
            payment, end = json.JSONDecoder().raw_decode(rest)
            found.append(payment)
            rest = rest[end:].lstrip()
        return found

    def words(self) -> list[str]:
        """What the sidecar has said of each call so far, in the order of its answers."""
        return [result.content for answer in self.answers for result in answer]

    def assert_heard(self, provider: Provider) -> None:
        """The model was told all of that, word for word, and the provider had no
        complaint."""
        told = json.dumps(provider.requests[-1][1], ensure_ascii=False)
        for words in self.words():
            self.assertIn(json.dumps(words, ensure_ascii=False)[1:-1], told)
        self.assertEqual(provider.refusals, [])

    async def begun(self, task: asyncio.Task[Any]) -> None:
        """Returns when the tool wait has begun, by this task."""
        while not (self.directory / "begun").exists():
            if task.done():
                raise AssertionError("it is over") from task.exception()
            await asyncio.sleep(0.01)

    def _count(self) -> None:
        """Keeps what is sent and answered from now on."""
        send, batches, answers, rpcs = self.s.stub.ExecuteTools, self.batches, self.answers, self.rpcs

        class Counted:
            def __call__(self, request: Any, **how: Any) -> Any:
                batches.append(list(request.calls))
                answer = send(request, **how)
                answers.append(list(answer.results))
                return answer

            def future(self, request: Any, **how: Any) -> Any:
                batches.append(list(request.calls))
                rpc = send.future(request, **how)
                rpcs.append(rpc)
                rpc.add_done_callback(lambda rpc: rpc.cancelled() or rpc.exception() or answers.append(list(rpc.result().results)))
                return rpc

        self.s.stub.ExecuteTools = Counted()
        run = self.s.stub.RunMessage

        def counted(request: Any, **how: Any) -> Any:
            answer = run(request, **how)
            answers.append(list(answer.results))
            return answer

        self.s.stub.RunMessage = counted


class OwnTest(DeskTest):
    """A sidecar that takes functions of the agent's own, and calls them otherwise."""

    backends: ClassVar[dict[str, Any]] = {"own": {"worker": {}, "prefix": "my_"}}

    def setUp(self) -> None:
        super().setUp()
        #: The keys of what functions did.
        self.done: list[str] = []

    def again(self) -> None:
        """Forgets what was counted."""
        for counted in (self.done, self.batches, self.answers):
            counted.clear()

    def refund(self, cents: int) -> str:
        """What a function does: the second time that it is tried."""
        call = Context.current()
        if call.attempt == 1:
            raise Failure("not yet", not_run=True)
        self.done.append(call.idempotency_key)
        return f"refunded {cents} in attempt {call.attempt}"

    def assert_refunded(self, provider: Provider, told: str | None = None) -> None:
        """A turn called refund with 5, with what is no number, and greet with Zoë: each
        ran as the sidecar wants it, and the model was told so."""
        self.assertEqual(provider.refusals, [])
        if told is None:
            self.assert_heard(provider)
            told = json.dumps(provider.requests[-1][1], ensure_ascii=False)
        self.assertIn("refunded 5 in attempt 2", told)
        self.assertIn("Hello Zoë", told)
        errors = [json.loads(w)["code"] for w in self.words() if w.startswith("{")]
        self.assertEqual(errors, ["INVALID_ARGS"])
        self.assertEqual(len(self.done), 1)
        # By the names that the sidecar has for them.
        self.assertEqual({c.tool_name for batch in self.batches for c in batch}, {"my_refund", "my_greet"})


#: The turn that it is about.
REFUND = [Say(calls=[("refund", {"cents": 5}), ("refund", {"cents": "5"}), ("greet", {"name": "Zoë"})]), Say("Done.")]

"""Functions of a program at a sidecar itself: what it takes, and what it refuses."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, ClassVar, Literal
from unittest import mock

from sidecall import AsyncSidecall, Call, Context, Sidecall, Worker, WorkerRefused, _shift
from sidecall.adapters._calls import Calls
from sidecall.adapters._own import Declared, Own

from frameworks.desk import DeskTest


@dataclass
class Item:
    sku: str
    count: int = 1


class WorkerTest(DeskTest):
    backends: ClassVar[dict[str, Any]] = {"local": {"worker": {}}, "other": {"worker": {}, "prefix": "other_"}}

    def names(self) -> list[str]:
        return [tool.name for tool in self.s.list_tools()]

    def test_a_program_calls_its_own_functions(self) -> None:
        @self.s.tool(effect="keyed")
        async def order(items: list[Item], how: Literal["cash", "card"], context: Context) -> dict[str, Any]:
            """Order."""
            return {"items": items, "how": how, "key": len(context.idempotency_key), "attempt": context.attempt}

        @self.s.tool
        def count(items: list[Item] | None = None) -> int:
            return len(items or [])

        with self.s.work(name="desk", backend="local") as work:
            self.assertEqual(dict(work.names), {"order": "order", "count": "count"})
            calls = [
                Call("1", "order", {"items": [{"sku": "A"}], "how": "cash"}),
                Call("2", "order", {"items": [{"skuu": "A"}], "how": "cahs"}),
                Call("3", "count", {}),
            ]
            for _ in range(2):
                ordered, wrong, counted = self.s.execute_tools(calls, conversation_id="c")
                self.assertRegex(ordered.content, r'{"items": \[{"sku": "A", "count": 1}\], "how": "cash", "key": \d+, "attempt": 1}')
                self.assertEqual({v.field for v in wrong.violations}, {"items[0].skuu", "how"})
                self.assertEqual((counted.content, counted.is_error), ("0", False))
            self.assertTrue(ordered.replayed)
        away = self.s.execute_tool(Call("4", "count", {}), conversation_id="c")
        self.assertEqual(away.error.code, "DEPENDENCY_UNAVAILABLE")
        self.assertIn("no worker serves it now", away.error.constraint)

    def test_each_process_is_given_its_own_calls(self) -> None:
        """Two that share a sidecar have functions of the same names."""
        other = Sidecall(self.s._target)
        self.addCleanup(other.close)
        ran: list[tuple[str, str]] = []
        crews = {"one": self._own(self.s), "other": self._own(other)}

        def call(of: str, n: int) -> str:
            def body() -> str:
                ran.append((of, f"{of}-{n}"))
                return of

            crew = crews[of]
            return crew.run(Call(f"{of}-{n}", "order", {}), {"conversation_id": "c", "turn_id": of}, body).content

        with ThreadPoolExecutor(8) as pool:
            calls = [(of, n) for n in range(10) for of in crews]
            answers = list(pool.map(lambda c: call(*c), calls))
        self.assertEqual(answers, [of for of, _ in calls])
        self.assertEqual(sorted(ran), sorted((of, f"{of}-{n}") for of, n in calls))

    def _own(self, client: Sidecall) -> Own:
        own = Own(client, Calls(client, {}), None, Worker("desk", "local", max_in_flight=2))
        own.declare([Declared("order", "Order.", {"type": "object"})])
        return own

    def test_what_it_refuses_is_said_and_nothing_is_registered(self) -> None:
        before = self.names()

        def worker(name: str, backend: str = "local", **said: Any) -> Worker:
            w = Worker("w", backend)
            w.tool(name="good")(lambda: "good")
            w.tool(name=name, **said)(lambda: "")
            return w

        async def awaits(refused: Worker) -> None:
            async with AsyncSidecall(self.s._launched.target) as s:
                await s.work(refused).start()

        for refused, says in (
            (worker("pay"), 'the name "pay" is that of a tool of the backend desk'),
            (worker("x", "desk"), 'there is no worker backend "desk"'),
            (worker("x", ""), "there are several worker backends: name one of local, other"),
            (worker("x", input_schema={"properties": {"a": {"type": "text"}}}), "must be one of"),
            (worker("x", deadline=360_000), "deadline: it is"),
        ):
            with self.subTest(says):
                with self.assertRaisesRegex(WorkerRefused, says) as caught:
                    self.s.work(refused).start()
                self.assertNotIn("\n", str(caught.exception))
                with self.assertRaisesRegex(WorkerRefused, says):
                    asyncio.run(awaits(refused))
        says = "speaks version 2 of the protocol, and this sidecar version 1"
        with mock.patch.object(_shift, "PROTOCOL", 2), self.assertRaisesRegex(WorkerRefused, says):
            self.s.work(worker("x")).start()
        self.assertEqual(self.names(), before)

    def test_a_sidecar_without_a_worker_backend(self) -> None:
        with Sidecall.launch({}) as s:
            s.tool(name="f")(lambda: "f")
            with self.assertRaisesRegex(WorkerRefused, "no worker backend is configured"):
                s.work().start()

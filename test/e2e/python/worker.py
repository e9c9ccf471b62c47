"""A worker for the tests of test/e2e/worker, or an agent that is its own worker.

usage: worker.py threads|asyncio [AGENT]
It works at SIDECALL_TEST_WORKER_OF and writes what it does to the file
SIDECALL_TEST_WORKER_LEDGER. With AGENT it calls act once, as the call AGENT, and prints
what came back as JSON. It is killed at the step SIDECALL_TEST_WORKER_DIES.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Annotated, Any

from sidecall import AsyncSidecall, Context, Sidecall, Worker
from sidecall._shift import Shift

TARGET = os.environ["SIDECALL_TEST_WORKER_OF"]
LEDGER = Path(os.environ["SIDECALL_TEST_WORKER_LEDGER"])
PLACES = int(os.environ.get("SIDECALL_TEST_WORKER_PLACES", "0")) or 16
DIES = os.environ.get("SIDECALL_TEST_WORKER_DIES", "")

worker = Worker("program", max_in_flight=PLACES)


def at(step: str) -> None:
    if step == DIES:
        die()


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
    while True:  # it is on its way
        time.sleep(60)


def note(line: str) -> None:
    with LEDGER.open("a") as file:
        file.write(line + "\n")
        file.flush()
        os.fsync(file.fileno())


def begin(key: str, then: str, context: Context) -> str:
    at("begun")
    note("ran " + key)
    at("done")
    if then == "die" or (then == "die in the first" and context.attempt == 1):
        die()
    return f"{key} by {os.getpid()}"


Then = Annotated[str, "hang, or die"]


def act(key: str, context: Context, then: Then = "") -> str:
    """Acts."""
    answer = begin(key, then, context)
    if then == "hang":
        context.wait_cancelled()
        note("ended " + key)
        raise TimeoutError
    return answer


async def act_async(key: str, context: Context, then: Then = "") -> str:
    """Acts."""
    answer = begin(key, then, context)
    if then == "hang":
        try:
            await asyncio.Event().wait()
        finally:
            note("ended " + key)
    return answer


def whoami() -> int:
    return os.getpid()


class Watched(Shift):
    """Dies where it is to."""

    def _begin(self, invoke: Any) -> None:
        at("invoked")
        super()._begin(invoke)

    def _answer(self, invoke: Any, result: Any) -> None:
        at("answering")
        super()._answer(invoke, result)
        at("answered")

    def _register(self, registered: Any) -> None:
        super()._register(registered)
        print("registered", file=sys.stderr if len(sys.argv) > 2 else sys.stdout, flush=True)


def message(id: str) -> dict[str, Any]:
    call = {"type": "tool_use", "id": id, "name": "act", "input": {"key": id}}
    return {"id": "msg_1", "type": "message", "role": "assistant", "stop_reason": "tool_use", "content": [call]}


def said(results: Any) -> None:
    (result,) = results.results
    at("heard")
    print(json.dumps({"code": result.error.code, "content": result.content, "replayed": result.replayed}), flush=True)


async def awaits(agent: str | None) -> None:
    async with AsyncSidecall(TARGET) as s:
        work = s.work(worker)
        if agent is None:
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, work.leave)
            await work.run()
            return
        async with work:
            at("ready")
            said(await s.run_tools(message(agent), conversation_id="c"))


def waits(agent: str | None) -> None:
    with Sidecall(TARGET) as s:
        work = s.work(worker)
        if agent is None:
            signal.signal(signal.SIGTERM, lambda *_: work.leave())
            work.run()
            return
        with work:
            at("ready")
            said(s.run_tools(message(agent), conversation_id="c"))


def main() -> None:
    import sidecall._work  # noqa: PLC0415

    sidecall._work.Shift = Watched  # type: ignore[misc]
    kind, agent = sys.argv[1], (sys.argv[2] if len(sys.argv) > 2 else None)
    function = act_async if kind == "asyncio" else act
    worker.tool(name="act")(function)
    worker.tool(name="again", effect="keyed")(function)
    worker.tool(name="undo", cancel_with_caller=True)(function)
    worker.tool(effect="read_only")(whoami)
    if kind == "asyncio":
        asyncio.run(awaits(agent))
    else:
        waits(agent)


main()

"""What the READMEs show is run as it stands there."""

from __future__ import annotations

import contextlib
import json
import os
import re
import unittest
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

from sidecall import Sidecall
from tests.test_messages import ANTHROPIC, CHAT, objects
from tests.test_session import DONE, Both, Fake, said

HERE = Path(__file__).parent.parent
CHAT_DONE = {"id": "chatcmpl-2", "choices": [{"finish_reason": "stop", "message": {"role": "assistant", "content": "Done."}}]}


def shown(file: Path, beginning: str) -> str:
    """The block of a file that begins so."""
    blocks = re.findall(r"^```python\n(.*?)^```", file.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    (block,) = [b for b in blocks if b.startswith(beginning)]
    return str(block).replace("...", "None")


def provider(*messages: Any) -> Any:
    """The client of a provider that answers with these, one after the other."""
    model = said(*messages)
    create = SimpleNamespace(create=lambda **asked: model(asked["messages"]))
    return SimpleNamespace(messages=create, chat=SimpleNamespace(completions=create))


class ReadmeTest(Both):
    def test_the_loop_of_the_project(self) -> None:
        def test(fake: Fake, run: Any) -> None:
            target = run.args[1]
            messages: list[Any] = [{"role": "user", "content": "Where is A-1?"}]
            names = {
                "os": os, "client": provider(objects(CHAT), objects(CHAT_DONE)), "going_on": True,
                "model": "m", "messages": messages, "conversation": "c", "prompt": "p",
            }  # fmt: skip
            with mock.patch.dict("os.environ", {"SIDECALL_ADDR": target}):
                exec(shown(HERE.parent.parent / "README.md", "from sidecall import Sidecall"), names)
            self.assertEqual([c.tool_use_id for c in fake.calls()], ["call_1", "call_2"])
            self.assertEqual([m["role"] for m in messages[2:4]], ["tool", "tool"])
            self.assertEqual(len(messages), 5)

        self.each(test, Sidecall)

    def test_the_loop_of_the_package(self) -> None:
        def test(fake: Fake, run: Any) -> None:
            messages: list[Any] = [{"role": "user", "content": "Where is A-1?"}]
            names = {
                "client": provider(objects(ANTHROPIC), objects(DONE)), "messages": messages, "conversation": "c", "prompt": "p",
            }
            code = shown(HERE / "README.md", "from sidecall import Sidecall\n\nwith Sidecall.launch")
            with mock.patch.object(Sidecall, "launch", return_value=Sidecall(run.args[1])):
                exec(code, names)
            self.assertEqual([c.tool_use_id for c in fake.calls()], ["toolu_1", "toolu_2"])
            self.assertEqual([m["role"] for m in messages], ["user", "assistant", "user", "assistant"])

        self.each(test, Sidecall)

    def test_the_functions_of_the_package(self) -> None:
        worked: dict[str, Any] = {}

        class Working(Sidecall):
            """Works at nobody, and calls its functions itself."""

            def work(self, worker: Any = None, **settings: Any) -> Any:
                worked.update(self.worker.functions, **settings)
                return contextlib.nullcontext()

        def test(fake: Fake, run: Callable[..., Any]) -> None:
            code = shown(HERE / "README.md", "from typing import Annotated, Literal")
            names: dict[str, Any] = {"message": objects(ANTHROPIC), "__name__": "readme"}
            with mock.patch.object(Sidecall, "launch", return_value=Working(run.args[1])):
                exec(code, names)
            self.assertEqual(worked["name"], "checkout")
            schema = json.loads(worked["refund"].declared.input_schema_json)
            self.assertEqual(schema["required"], ["order_id", "cents", "why"])
            self.assertEqual(len(names["results"].results), 2)

        self.each(test, Sidecall)


if __name__ == "__main__":
    unittest.main()

"""A program that has a sidecar of its own. The last argument is how it ends: well,
by kill -9, or by an exception.

usage: launched.py CONFIG END
"""

import json
import os
import signal
import sys

from sidecall import Sidecall

CALLS = {
    "id": "msg_1", "type": "message", "role": "assistant", "stop_reason": "tool_use",
    "content": [
        {"type": "tool_use", "id": "toolu_1", "name": "create_ticket", "input": {"title": "Printer on fire", "priority": "urgent"}},
        {"type": "tool_use", "id": "toolu_2", "name": "create_ticket", "input": {"title": "Water", "priority": "urgnt"}},
    ],
}  # fmt: skip

config, end = sys.argv[1:]
with Sidecall.launch(config) as sidecall:
    print(json.dumps({
        "socket": sidecall._launched.target.removeprefix("unix://"),
        "tools": [tool["name"] for tool in sidecall.tools("anthropic")],
        "first": list(sidecall.run_tools(CALLS, conversation_id="c")),
        "again": list(sidecall.run_tools(CALLS, conversation_id="c")),
    }), flush=True)  # fmt: skip
    if end == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if end == "exception":
        raise RuntimeError("the agent is broken")

"""A whole agent in one file: a sidecar of its own, a model, and the loop between them.
The model is scripted, so it needs no account; with a real one, ask is

    lambda messages: client.messages.create(
        model=..., max_tokens=4096, system=s.instructions(), tools=s.tools(), messages=messages)

usage: agent.py [CONFIG], such as clients/examples/sidecall.yaml
"""

import json
import sys
from typing import Any

from sidecall import Sidecall


def scripted(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """Opens a ticket, misspells its priority, and corrects that by what the error says."""
    said = json.dumps(messages[-1])
    arguments = {"title": "Printer on fire", "priority": "urgent" if "Did you mean" in said else "urgnt"}
    turn = {"id": f"msg_{len(messages)}", "type": "message", "role": "assistant"}
    if '"tool_result"' in said and '"is_error"' not in said:
        return {**turn, "stop_reason": "end_turn", "content": [{"type": "text", "text": "The ticket is open."}]}
    call = {"type": "tool_use", "id": f"toolu_{len(messages)}", "name": "create_ticket", "input": arguments}
    return {**turn, "stop_reason": "tool_use", "content": [call]}


with Sidecall.launch(sys.argv[1] if len(sys.argv) > 1 else "sidecall.yaml") as s:
    end = s.run_loop(scripted, [{"role": "user", "content": "The printer is on fire!"}], conversation_id="c-1")
    for message in end.messages:
        print(f"{message['role']}: {json.dumps(message['content'])}")
    print(f"{end.exit_reason} after {end.turns} turns")

"""A whole agent loop with a scripted model: no account, no network.

The model makes the mistakes that models make: a misspelt tool, a misspelt
argument, a value that is not in the list, a number as a string, a date in
words. It repairs each from the five fields of the error and nothing else; it
never looks at a schema.

usage: agent_loop.py [TARGET], against a sidecar run with
clients/examples/sidecall.yaml
"""

from __future__ import annotations

import json
import re
import sys
import uuid
from typing import Any

from sidecall import DEFAULT_TARGET, Call, Result, Sidecall, ToolError

MAX_TURNS = 8
DID_YOU_MEAN = re.compile(r'Did you mean ("(?:[^"\\]|\\.)*")\?')

Wish = tuple[str, dict[str, Any]]  # a tool's name, and arguments


class ScriptedModel:
    """Stands for the provider: wants two tickets, and gets them wrong."""

    def __init__(self) -> None:
        self.wishes: list[Wish] = [
            ("create_ticket", {"title": "Printer on fire", "priority": "urgnt", "due": "tomorrow"}),
            ("creat_ticket", {"title": "Water in the server room", "prioritty": "high", "people": "3"}),
        ]

    def tool_calls(self) -> list[Call]:
        """The tool calls of the next assistant turn. Like some providers, this
        one starts its ids again in every turn."""
        return [Call(f"call_{i}", name, json.dumps(arguments)) for i, (name, arguments) in enumerate(self.wishes)]

    def observe(self, results: list[Result]) -> None:
        """Reads the results of its calls; what failed is wanted again, repaired."""
        failed = [(wish, r) for wish, r in zip(self.wishes, results, strict=True) if r.is_error]
        self.wishes = [repair(wish, r) for wish, r in failed]


def repair(wish: Wish, result: Result) -> Wish:
    """Corrects a call by what its error says, violation by violation."""
    name, arguments = wish
    arguments = dict(arguments)
    for v in result.violations or [result.error]:
        keyword = v.constraint.partition(": ")[0]
        suggestion, example = suggested(v)
        if v.code == "UNKNOWN_TOOL" and suggestion:
            name = suggestion
        elif v.code != "INVALID_ARGS":
            raise SystemExit(f"cannot repair {result.content}")
        elif keyword == "additionalProperties":
            value = arguments.pop(v.field)
            if suggestion:
                arguments[suggestion] = value
        elif keyword == "required" and suggestion:
            arguments[v.field] = arguments.pop(suggestion)
        elif suggestion is not None or example is not None:
            arguments[v.field] = example if suggestion is None else suggestion
        else:
            raise SystemExit(f"cannot repair {result.content}")
    return name, arguments


def suggested(error: ToolError) -> tuple[str | None, Any]:
    """The X of Did you mean "X"? and of e.g. X in a hint."""
    found = DID_YOU_MEAN.search(error.hint)
    _, marker, example = error.hint.partition("e.g. ")
    return (
        json.loads(found[1]) if found else None,
        json.JSONDecoder().raw_decode(example)[0] if marker else None,
    )


def run_turn(sidecall: Sidecall, conversation: str, turn: int, calls: list[Call]) -> list[Result]:
    # All that happens here is for one message of the user: one prompt.
    results = sidecall.execute_tools(
        calls, conversation_id=conversation, prompt_id="1", turn_id=str(turn), rpc_timeout=60)
    for call, result in zip(calls, results, strict=True):
        state = result.error.code if result.is_error else "replayed" if result.replayed else "ok"
        print(f"turn {turn} {result.tool_use_id} {call.tool_name} {call.arguments_json()}\n  {state}: {result.content}")
    if any(result.stop for result in results):
        raise SystemExit("told to stop: the model goes round in circles")
    return results


def main() -> None:
    target = sys.argv[1] if len(sys.argv) > 1 else DEFAULT_TARGET
    conversation = f"example-{uuid.uuid4()}"
    model = ScriptedModel()
    with Sidecall(target) as sidecall:
        print("tools:", ", ".join(tool.name for tool in sidecall.list_tools(rpc_timeout=10)))
        turn = 0
        calls: list[Call] = []
        while model.wishes and turn < MAX_TURNS:
            turn += 1
            calls = model.tool_calls()
            model.observe(run_turn(sidecall, conversation, turn, calls))
        if model.wishes:
            raise SystemExit(f"not done after {MAX_TURNS} turns")

        # The answer to the last turn got lost, say, and the loop sends it again:
        # the ids are the same, so nothing runs a second time.
        run_turn(sidecall, conversation, turn, calls)

        (tickets,) = run_turn(sidecall, conversation, turn + 1, [Call("call_0", "list_tickets")])
        print(f"done: {len(tickets.content.splitlines())} tickets after {turn} turns")


if __name__ == "__main__":
    main()

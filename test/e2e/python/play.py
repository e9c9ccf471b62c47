"""Plays a model's provider for a program of another language, which says on its standard
input what is to be said, and is told on its standard output:

    {"script": [{"calls": [["pay", {"cents": 5}]]}, {"text": "Paid."}]}   the URL
    (an empty line)                        {"requests": [...], "refusals": [...]} so far

It ends with its standard input.
"""

import json
import sys

from provider import Provider, Say


def main() -> None:
    script = [Say(**{**say, "calls": [tuple(call) for call in say.get("calls", ())]}) for say in json.loads(sys.stdin.readline())["script"]]
    with Provider(script) as provider:
        print(provider.url, flush=True)
        for _ in sys.stdin:
            print(json.dumps({"requests": provider.requests, "refusals": provider.refusals}), flush=True)


if __name__ == "__main__":
    main()

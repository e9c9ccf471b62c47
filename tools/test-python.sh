#!/bin/sh
# Tests the Python client as a user gets it: the stubs are what proto/ generates
# now, and the package, installed from its own pyproject.toml, passes its tests.
#
# usage: test-python.sh PYTHON [AGENTS]
# PYTHON has the grpcio and grpcio-tools pinned in test/e2e/python/requirements.txt.
# AGENTS has the frameworks pinned in test/e2e/python/requirements-agents.txt; without it, or
# where it is not installed, the adapters are not tested against them.
set -eu
cd "$(dirname "$0")/.."

root=$PWD
python=$(realpath -s "$1") # a link: where it points to is no virtual environment
agents=$root/${2:-}
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
export GRPC_VERBOSITY=ERROR # streams that end are no news

tools/generate-python.sh "$python" "$out/generated"
# __init__.py is written by hand.
if ! diff -ru --exclude=__pycache__ --exclude=__init__.py "$out/generated/sidecall/v1" clients/python/src/sidecall/v1; then
	echo "generated Python code is not up to date: run make generate-python" >&2
	exit 1
fi

"$python" -m ruff check --no-cache --quiet clients/python
(cd test/e2e/python && "$python" -m ruff check --no-cache --quiet --config "$root/clients/python/pyproject.toml" .)
(cd clients/python && "$python" -m mypy --cache-dir "$out/mypy" --no-error-summary)

# As a wheel that carries the sidecar.
tools/wheels.sh -offline "$python" "$out/wheel" here
"$python" -m pip install -q --disable-pip-version-check --no-deps --target "$out/installed" "$out"/wheel/*.whl
cd clients/python
PYTHONPATH="$out/installed" "$python" -B -W error::ResourceWarning -m unittest discover -t . -s tests

# The adapters, with the frameworks themselves and the sidecar that the wheel carries.
if ! [ -f "$agents" ]; then
	echo "the agent frameworks are not installed, so the adapters are not tested with them" >&2
	exit
fi
cd "$root/clients/python"
# It reads the frameworks too, so what it has read is kept.
"$python" -m mypy --python-executable "$agents" --cache-dir "${XDG_CACHE_HOME:-$HOME/.cache}/sidecall/mypy-agents" --no-error-summary \
	src/sidecall/adapters/*.py examples/langgraph_agent.py
cd "$root/test/e2e/python"
# Warnings are the frameworks' own.
env -u SIDECALL_BINARY PYTHONPATH="$out/installed" LANGSMITH_TRACING=false \
	"$agents" -B -W ignore -m unittest discover -t . -s frameworks

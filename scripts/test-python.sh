#!/bin/sh
# Tests the Python client as a user gets it: the stubs are what proto/ generates
# now, and the package, installed from its own pyproject.toml, passes its tests.
#
# usage: test-python.sh PYTHON
# PYTHON has the grpcio and grpcio-tools pinned in e2e/python/requirements.txt.
set -eu
cd "$(dirname "$0")/.."

python=$1
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

scripts/generate-python.sh "$python" "$out/generated"
# __init__.py is written by hand.
if ! diff -ru --exclude=__pycache__ --exclude=__init__.py "$out/generated/sidecall/v1" clients/python/src/sidecall/v1; then
	echo "generated Python code is not up to date: run make generate-python" >&2
	exit 1
fi

# From a copy: setuptools leaves build directories behind.
cp -r clients/python "$out/source"
"$python" -m pip install -q --disable-pip-version-check --no-deps --target "$out/installed" "$out/source"
for file in py.typed v1/tool_service_pb2.pyi; do
	[ -f "$out/installed/sidecall/$file" ] || { echo "the Python package lacks $file" >&2; exit 1; }
done
PYTHONPATH="$out/installed" "$python" -B -W error::ResourceWarning -m unittest discover -s clients/python/tests

#!/bin/sh
# Generates the Python stubs (messages, their types, the service) from proto/.
#
# usage: generate-python.sh PYTHON DIRECTORY
# PYTHON has the grpcio-tools pinned in test/e2e/python/requirements.txt.
set -eu
cd "$(dirname "$0")/.."

python=$1
out=$2
mkdir -p "$out"
"$python" -m grpc_tools.protoc -I proto \
	--python_out="$out" --pyi_out="$out" --grpc_python_out="$out" \
	proto/sidecall/v1/*.proto

#!/bin/sh
# Fails when the Go code, or the Node package's copy of the contract, is not
# what proto/ generates now. (The Python stubs: test-python.sh.)
set -eu
cd "$(dirname "$0")/.."

: "${BUF:=go tool -modfile=tools/buf/go.mod buf}"

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

# shellcheck disable=SC2086 # BUF is a command with arguments
$BUF generate -o "$out"
cp proto/sidecall/v1/*.proto "$out/proto/sidecall/v1/"
if ! diff -ru proto "$out/proto" || ! diff -ru proto clients/node/proto --exclude='*.pb.go'; then
	echo "generated code is not up to date: run make generate" >&2
	exit 1
fi

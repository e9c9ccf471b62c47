#!/bin/sh
# Tests the Node client with its own, locked dependencies; then its adapters, in the agent
# frameworks themselves, with a sidecar built of what is here and a provider that is
# played (test/e2e/python/provider.py). Nothing of it asks the network.
set -eu
cd "$(dirname "$0")/.."

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
${GO:-go} build -trimpath -o "$out/sidecall" ./cmd/sidecall

cd clients/node
npm test --silent
SIDECALL_BINARY="$out/sidecall" npm run test:frameworks --silent

# As it is published.
cd ../..
tools/npm.sh -offline "$out/npm" here

#!/bin/sh
# Tests the Node client with its own, locked dependencies; then its adapters, in the agent
# frameworks themselves, with a sidecar built of what is here and a provider that is
# played (e2e/python/provider.py). Nothing of it asks the network.
set -eu
cd "$(dirname "$0")/.."

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
${GO:-go} build -trimpath -o "$out/sidecall" ./cmd/sidecall

cd clients/node
npm test --silent
SIDECALL_BINARY="$out/sidecall" npm run test:frameworks --silent

# A project that has nothing but the package as it is published, and links to what it
# requires: an agent has its own function and a real MCP server's tools behind all of it.
# make npm does the same with npm install, which asks the network.
agent=$out/agent
mkdir -p "$agent/node_modules/@sidecall"
tar -xzf "$out/$(npm pack --silent --pack-destination "$out" | tail -n 1)" -C "$out"
mv "$out/package" "$agent/node_modules/@sidecall/client"
ln -s "$PWD/node_modules/@grpc" "$agent/node_modules/@grpc"
cp examples/agent.mjs "$agent/example.mjs"
cp ../../e2e/fresh/agent.mjs ../../e2e/fresh/sidecall.yaml "$agent/"
server=$PWD/../../e2e/node/node_modules/@modelcontextprotocol/server-filesystem/dist/index.js
check=$PWD/../../e2e/fresh/check.py
cd "$agent"
PATH=$out:$PATH python3 -B "$check" "$server" node agent.mjs
PATH=$out:$PATH node example.mjs >said || { cat said >&2; exit 1; }
grep '^end_turn after' said

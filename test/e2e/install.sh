#!/bin/sh
# Installs what the end-to-end tests talk to: the MCP servers that others wrote
# (npm and PyPI), the gRPC clients for Node and Python, redis-server and a browser; and the
# Node client's own dependencies, with which it is built, among them the agent
# frameworks that it has adapters for; and the conformance suite and the inspector of MCP in
# test/e2e/conformance, with the Node that they need where that is to be had.
# Running it again does nothing when nothing changed.
#
# The npm servers go to test/e2e/node/node_modules and the Python ones to two virtual
# environments: test/e2e/.venv, and test/e2e/.venv-sqlite for mcp-server-sqlite and LangChain's MCP
# adapters, which need version 1 of the Python MCP SDK while the others need version 2. A
# third, test/e2e/.venv-agents, has the agent frameworks that the Python client has adapters
# for; their versions want Python 3.11. They are links into the user's cache
# (tools/kept.sh), so that the next clone has them.
set -eu

cd "$(dirname "$0")/../.."

say() { printf 'install: %s\n' "$*"; }
die() { printf 'install: error: %s\n' "$*" >&2; exit 1; }

# as_root runs a command with the rights to install system packages.
as_root() {
	if [ "$(id -u)" -eq 0 ]; then
		"$@"
	elif command -v sudo >/dev/null 2>&1; then
		sudo "$@"
	else
		die "cannot run '$*': neither root nor sudo; install it by hand and run this again"
	fi
}

apt_updated=
apt_install() {
	command -v apt-get >/dev/null 2>&1 || die "$1 is missing and there is no apt-get here; install it by hand and run this again"
	if [ -z "$apt_updated" ]; then
		as_root apt-get update -qq || die "apt-get update failed"
		apt_updated=yes
	fi
	say "installing $1 with apt-get"
	as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$1" >/dev/null || die "apt-get install $1 failed"
}

# need COMMAND PACKAGE installs PACKAGE when COMMAND is not there.
need() {
	command -v "$1" >/dev/null 2>&1 && return
	apt_install "$2"
	command -v "$1" >/dev/null 2>&1 || die "$1 is still missing after installing $2"
}

need redis-server redis-server
need python3 python3
need git git
need node nodejs
need npm npm
need chromium chromium

node -e 'process.exit(Number(process.versions.node.split(".")[0]) >= 20 ? 0 : 1)' ||
	die "node $(node --version) is too old: version 20 or later is needed"
python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' ||
	die "$(python3 --version) is too old: version 3.10 or later is needed"

python3 -c 'import ensurepip, venv' 2>/dev/null || apt_install python3-venv

# npm_ci DIRECTORY installs what its lock file says; venv PLACE REQUIREMENTS makes a
# virtual environment. Each waits for the network for the most part.
npm_ci() {
	tools/kept.sh "$1/node_modules" "$(node --version; cat "$1"/package*.json)" \
		sh -c 'cp "$1"/package*.json "$2" && cd "$2" && npm ci --ignore-scripts --no-fund --no-audit --loglevel=error' npm "$1"
}
venv() {
	tools/kept.sh "$1" "$(python3 -c 'import sys; print(sys.version, sys.base_prefix)'; cat "$2")" \
		sh -c 'python3 -m venv "$3/$1" && "$3/$1/bin/python" -m pip install -q --disable-pip-version-check --no-compile -r "$2"' venv "$(basename "$1")" "$2"
}

failed=
npm_ci test/e2e/node & pids=$!
npm_ci clients/node & pids="$pids $!"
npm_ci test/e2e/conformance & pids="$pids $!"
venv test/e2e/.venv test/e2e/python/requirements.txt & pids="$pids $!"
venv test/e2e/.venv-sqlite test/e2e/python/requirements-sqlite.txt & pids="$pids $!"
if python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
	venv test/e2e/.venv-agents test/e2e/python/requirements-agents.txt & pids="$pids $!"
else
	say "$(python3 --version) is too old for the agent frameworks, whose tests are left out: they need version 3.11"
fi
for pid in $pids; do
	wait "$pid" || failed=yes
done
[ -z "$failed" ] || die "not everything could be installed"
node clients/node/scripts/build.mjs || die "the Node client could not be built"
say "done"

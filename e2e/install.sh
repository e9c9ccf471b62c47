#!/bin/sh
# Installs what the end-to-end tests talk to: the MCP servers that others wrote
# (npm and PyPI), the gRPC clients for Node and Python, and redis-server.
# Running it again does nothing when nothing changed.
#
# The npm servers go to e2e/node/node_modules and the Python ones to two virtual
# environments: e2e/.venv, and e2e/.venv-sqlite for mcp-server-sqlite, which
# needs version 1 of the Python MCP SDK while the others need version 2.
set -eu

cd "$(dirname "$0")"

say() { printf 'e2e/install: %s\n' "$*"; }
die() { printf 'e2e/install: error: %s\n' "$*" >&2; exit 1; }

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

# fresh STAMP FILES... tells whether STAMP was made from FILES as they are now.
fresh() {
	stamp=$1
	shift
	[ -f "$stamp" ] && [ "$(cat "$stamp")" = "$(cat "$@" | cksum)" ]
}

need redis-server redis-server
need python3 python3
need git git
need node nodejs
need npm npm

node -e 'process.exit(Number(process.versions.node.split(".")[0]) >= 20 ? 0 : 1)' ||
	die "node $(node --version) is too old: version 20 or later is needed"
python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' ||
	die "$(python3 --version) is too old: version 3.10 or later is needed"

if fresh node/node_modules/.stamp node/package-lock.json; then
	say "npm packages are up to date"
else
	say "installing the npm packages"
	(cd node && npm ci --omit=dev --ignore-scripts --no-fund --no-audit --loglevel=error) || die "npm ci failed in e2e/node"
	cksum <node/package-lock.json >node/node_modules/.stamp
fi

# venv DIRECTORY REQUIREMENTS
venv() {
	if fresh "$1/.stamp" "$2" && "$1/bin/python" -c '' 2>/dev/null; then
		say "$1 is up to date"
		return
	fi
	say "installing $2 into $1"
	rm -rf "$1"
	if ! python3 -m venv "$1" >/dev/null 2>&1; then
		apt_install python3-venv
		rm -rf "$1"
		python3 -m venv "$1" || die "python3 -m venv failed"
	fi
	"$1/bin/python" -m pip install -q --disable-pip-version-check -r "$2" || die "pip install -r $2 failed"
	cksum <"$2" >"$1/.stamp"
}

venv .venv python/requirements.txt
venv .venv-sqlite python/requirements-sqlite.txt

say "done"

#!/bin/sh
# Installs what the full test run needs: a C compiler for the race detector, the
# modules of what checks deploy/, and what the end-to-end tests talk to.
# Running it again does nothing when nothing changed.
set -eu
cd "$(dirname "$0")/.."

die() { printf 'deps: error: %s\n' "$*" >&2; exit 1; }

cc=$(${GO:-go} env CC)
if ! command -v "${cc%% *}" >/dev/null 2>&1; then
	command -v apt-get >/dev/null 2>&1 || die "no C compiler ($cc), which the race detector needs; install one and run this again"
	sudo=
	[ "$(id -u)" -eq 0 ] || sudo=sudo
	$sudo apt-get update -qq
	$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends gcc libc6-dev >/dev/null
fi

# It is a module of its own, which nothing else that is built here needs.
(cd tools/deploy && ${GO:-go} list -deps -test . >/dev/null)

exec test/e2e/install.sh

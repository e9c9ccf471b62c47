#!/bin/sh
# Runs the end-to-end tests, with the unit tests of their packages. Never from the cache,
# since they depend on more than this source tree.
#
# usage: e2e.sh [flags of go test, such as -race]
#        e2e.sh -packages    lists the packages
#
# With -race the sidecars that the tests start have the race detector too. The tests that
# unit.sh does not race are not raced here either.
set -eu
cd "$(dirname "$0")/.."

# Backwards: e2e, which takes longest, runs beside internal/store/redisstore and not after it.
packages=$(grep -rlE --include='*.go' --exclude-dir=node_modules --exclude-dir='.?*' '^//go:build .*\be2e\b' . | xargs -n 1 dirname | sort -ru)
[ -n "$packages" ] || { echo "e2e: there is no package with end-to-end tests" >&2; exit 1; }
case " $* " in
" -packages ")
	echo "$packages"
	exit
	;;
*" -race "*) export SIDECALL_E2E_RACE=1 GORACE="atexit_sleep_ms=0${GORACE:+ $GORACE}" ;; # see unit.sh
esac
serial=$(tools/unit.sh -serial)
# shellcheck disable=SC2086 # one line per package
serial_packages=$(printf '%s\n' $serial | sort -u | grep -xF "$packages")
serial=$(printf '%s\n' "$serial" | head -n 1)

# Tests wait for processes more than they compute, so that six run at a time. go vet is a
# part of make lint.
test="${GO:-go} test -tags e2e -vet=off -count=1 -timeout 15m -parallel 6"
verdict=0
# shellcheck disable=SC2086 # one argument per package
$test -skip "$serial" "$@" $packages || verdict=1
# shellcheck disable=SC2086
$test -run "$serial" $serial_packages || verdict=1
exit $verdict

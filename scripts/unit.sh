#!/bin/sh
# Runs the unit tests, each once: Go and nothing else.
#
# usage: unit.sh [-without-e2e] [flags of go test, such as -race]
#
# -without-e2e leaves out the packages that have end-to-end tests too: e2e.sh runs
# all tests of those.
set -eu
cd "$(dirname "$0")/.."
GO=${GO:-go}

# Words about words: nothing in these packages starts a goroutine or shares what it
# changes, so the race detector would find nothing, and it makes them ten times
# slower. What they have for many callers at once (a sync.Pool, a sync.OnceValue) is
# raced in the tests of server and in those end to end.
alone="./config ./guard ./interpret ./output ./schema ./schema/repair ./tool"
for package in $alone; do
	for file in "$package"/*.go; do
		case $file in *_test.go) continue ;; esac
		if grep -nE '^[[:space:]]*go [a-z]|\.Go\(|\bchan\b|sync\.(RW)?Mutex|sync\.Map|sync/atomic' "$file"; then
			echo "unit: $file does things at the same time: take $package off the list in scripts/unit.sh" >&2
			exit 1
		fi
	done
done

without=$alone
if [ "${1:-}" = -without-e2e ]; then
	shift
	without="$without $(scripts/e2e.sh -packages)"
fi
# shellcheck disable=SC2086 # one word per package
others=$($GO list -f '{{.Dir}}' ./... | sed "s#^$PWD#.#" | grep -vxF "$(printf '%s\n' $without)")

verdict=0
# shellcheck disable=SC2086 # one argument per package
$GO test -timeout 10m "$@" $others || verdict=1
# shellcheck disable=SC2086
$GO test -timeout 10m $alone || verdict=1
exit $verdict

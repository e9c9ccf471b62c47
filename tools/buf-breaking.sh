#!/bin/sh
# Fails when the contract in proto/ breaks clients of what was there before:
# the last release when there is one, else where this branch left main, else the
# commit before this one. Says so when there is nothing to compare with (a first
# commit, a shallow clone, no git).
set -eu
cd "$(dirname "$0")/.."

: "${BUF:=go tool -modfile=tools/buf/go.mod buf}"

# has_contract COMMIT tells whether COMMIT is here and has a contract.
has_contract() { git cat-file -e "$1:proto" 2>/dev/null; }

base() {
	if tag=$(git describe --tags --abbrev=0 --match 'v*' HEAD^ 2>/dev/null); then
		git rev-parse "$tag^{commit}"
		return
	fi
	head=$(git rev-parse HEAD)
	for main in origin/main main; do
		fork=$(git merge-base "$main" HEAD 2>/dev/null) || continue
		if [ "$fork" != "$head" ]; then
			echo "$fork"
			return
		fi
	done
	git rev-parse --verify --quiet HEAD^
}

if ! against=$(base 2>/dev/null) || ! has_contract "$against"; then
	echo "buf breaking: no earlier contract here to compare with"
	exit 0
fi
echo "buf breaking: against $(git log -1 --format='%h %s' "$against")"
# shellcheck disable=SC2086 # BUF is a command with arguments
exec $BUF breaking --against ".git#ref=$against"

#!/bin/sh
# Fails when a Go file is not formatted, or a shell script does not parse.
set -eu
cd "$(dirname "$0")/.."

unformatted=$(find . -name '*.go' -not -path '*/node_modules/*' -not -path './test/e2e/.venv*' -exec "$(go env GOROOT)/bin/gofmt" -l {} +)
if [ -n "$unformatted" ]; then
	printf 'not formatted, run gofmt -w:\n%s\n' "$unformatted" >&2
	exit 1
fi
for script in tools/*.sh test/e2e/*.sh .ci/run; do
	sh -n "$script"
done

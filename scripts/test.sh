#!/bin/sh
# The whole test run, stage by stage, with the time each one took. A stage that
# fails does not keep the later ones from running: one run shows everything that
# is wrong. Exits non-zero when any stage failed.
set -u
cd "$(dirname "$0")/.." || exit

MAKE=${MAKE:-make}
started=$(date +%s)
summary=
failed=

# Temporary files are in memory, where there is room and programs may run: a disk
# that others write to may be still for seconds, and a thousand waits for it take
# minutes. What a killed process has written is there in memory too; `make prove`
# uses the disk.
memory=/dev/shm/sidecall-$(pwd | cksum | cut -d ' ' -f 1)
if [ "$(df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 {print $4}')" -gt $((6 << 20)) ] 2>/dev/null &&
	rm -rf "$memory" && mkdir -m 700 "$memory" && cp /bin/true "$memory/true" && "$memory/true"; then
	trap 'rm -rf "$memory"' EXIT
	trap 'exit 1' INT TERM
	export TMPDIR="$memory"
fi

# What was built in one directory is found in the build cache from another.
GOFLAGS="$(${GO:-go} env GOFLAGS) -trimpath"
export GOFLAGS

# stage NAME COMMAND...
stage() {
	name=$1
	shift
	printf '\n=== %s: %s\n' "$name" "$*"
	from=$(date +%s)
	if "$@" </dev/null; then
		verdict=ok
	else
		verdict=FAILED
		failed="$failed $name"
	fi
	took=$(($(date +%s) - from))
	printf '=== %s: %s after %d s\n' "$name" "$verdict" "$took"
	summary="$summary$(printf '  %-8s %-7s %5d s' "$name" "$verdict" "$took")
"
}

stage deps   "$MAKE" --no-print-directory deps
stage unit   scripts/unit.sh -without-e2e -race
stage lint   "$MAKE" --no-print-directory lint
stage e2e    "$MAKE" --no-print-directory e2e RACE=-race
stage prove  "$MAKE" --no-print-directory prove-counted
stage python "$MAKE" --no-print-directory test-python
stage node   "$MAKE" --no-print-directory test-node
stage readme "$MAKE" --no-print-directory check-readme
stage hour   "$MAKE" --no-print-directory check-first-hour
stage image  "$MAKE" --no-print-directory check-image
stage vuln   "$MAKE" --no-print-directory vuln

printf '\n=== summary, %d s in all\n%s' $(($(date +%s) - started)) "$summary"
if [ -n "$failed" ]; then
	printf 'FAILED:%s\n' "$failed"
	exit 1
fi
printf 'PASSED: every stage\n'

#!/bin/sh
# The whole test run, stage by stage, with the time each one took. A stage that
# fails does not keep the others from running: one run shows everything that is
# wrong. Exits non-zero when any stage failed.
#
# Two stages run at a time, since some wait more than they compute. Of what a
# stage says the end is printed when it has ended, and all of it when it failed.
set -u
cd "$(dirname "$0")/.." || exit

MAKE=${MAKE:-make}
started=$(date +%s)

# Temporary files are in memory, where there is room and programs may run: a disk
# that others write to may be still for seconds, and a thousand waits for it take
# minutes. What a killed process has written is there in memory too; `make prove`
# uses the disk.
memory=/dev/shm/sidecall-$(pwd | cksum | cut -d ' ' -f 1)
if [ "$(df -Pk /dev/shm 2>/dev/null | awk 'NR == 2 {print $4}')" -gt $((6 << 20)) ] 2>/dev/null &&
	rm -rf "$memory" && mkdir -m 700 "$memory" && cp /bin/true "$memory/true" && "$memory/true"; then
	export TMPDIR="$memory"
else
	memory=
fi
logs=$(mktemp -d) || exit
trap 'rm -rf "$logs" ${memory:+"$memory"}' EXIT

# What was built in one directory is found in the build cache from another.
GOFLAGS="$(${GO:-go} env GOFLAGS) -trimpath"
export GOFLAGS

# stage NAME COMMAND... runs a stage, and tells when it begins and what came of it.
stage() {
	name=$1
	shift
	echo "$name began"
	from=$(date +%s)
	printf '\n=== %s: %s\n' "$name" "$*" >"$logs/$name"
	if "$@" </dev/null >>"$logs/$name" 2>&1; then
		verdict=ok
	else
		verdict=FAILED
	fi
	echo "$name $verdict $(($(date +%s) - from))"
}

# waits are the stages that wait for processes, servers and clocks of their own;
# computes are those that keep a processor busy. The race detector's builds are for
# the former first, while lint has others: none is made twice.
waits() {
	stage e2e    "$MAKE" --no-print-directory e2e RACE=-race
	stage prove  "$MAKE" --no-print-directory prove-counted
}
computes() {
	stage lint   "$MAKE" --no-print-directory lint
	stage unit   tools/unit.sh -without-e2e -race
	stage python "$MAKE" --no-print-directory test-python
	stage node   "$MAKE" --no-print-directory test-node
	stage readme "$MAKE" --no-print-directory check-readme
	stage hour   "$MAKE" --no-print-directory check-first-hour
	stage image  "$MAKE" --no-print-directory check-image
	stage deploy "$MAKE" --no-print-directory check-deploy
	stage vuln   "$MAKE" --no-print-directory vuln
}

# told prints what the stages have said and the summary, one thing after the other.
told() {
	while read -r name verdict took; do
		if [ "$verdict" = began ]; then
			printf '... %s began\n' "$name"
			continue
		fi
		if [ "$verdict" = ok ] && [ "$name" != prove ]; then
			tail -n 5 "$logs/$name"
		else
			cat "$logs/$name"
		fi
		[ "$verdict" = ok ] && rm "$logs/$name"
		printf '=== %s: %s after %d s\n' "$name" "$verdict" "$took"
		printf '  %-8s %-7s %5d s\n' "$name" "$verdict" "$took" >>"$logs/.summary"
	done
	printf '\n=== summary, %d s in all\n' $(($(date +%s) - started))
	cat "$logs/.summary"
	failed=$(awk '$2 == "FAILED" {printf " %s", $1}' "$logs/.summary")
	if [ -n "$failed" ]; then
		# The lines that tell of it, once more: of thousands, these are looked for.
		for name in $failed; do
			printf '\n=== %s, what failed:\n' "$name"
			grep -nE '^(--- FAIL|FAIL|FAILED|ERROR|not ok|panic:|make.*\*\*\*)|^ +--- FAIL|_test\.go:[0-9]+: |AssertionError|Error: ' "$logs/$name" | cut -c 1-400 | head -n 60
			tail -n 20 "$logs/$name"
		done
		printf 'FAILED:%s\n' "$failed"
		return 1
	fi
	printf 'PASSED: every stage\n'
}

# called_off ends what runs, and prints how far it came.
called_off() {
	trap '' INT TERM
	# shellcheck disable=SC2046 # one argument per process
	kill $(ps -e -o pid=,ppid= | awk -v top=$$ '
		{parent[$1] = $2}
		function ours(pid) {return pid in parent && (parent[pid] == top || parent[pid] > 1 && ours(parent[pid]))}
		END {for (pid in parent) if (ours(pid)) print pid}') 2>/dev/null
	cat "$logs"/* 2>/dev/null
	printf '\nCALLED OFF after %d s\n' $(($(date +%s) - started))
	exit 1
}
trap called_off INT TERM

# In the background, so that a signal is not kept waiting.
{
	stage deps "$MAKE" --no-print-directory deps
	waits &
	computes
	wait
} | told &
wait $!

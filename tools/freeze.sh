#!/bin/sh
# Runs a command while the machine stands still for some seconds in every minute:
# all processes of the command are stopped (SIGSTOP) and continued, while clocks go
# on. What breaks there would break on a machine that is only busy.
#
# usage: freeze.sh COMMAND...
# FREEZE_FOR and FREEZE_EVERY are seconds: 5 and 60 unless they say otherwise.
#
# Processes are found by the session or by their parents, so that one in a process
# group of its own is stopped too; which is how tests start sidecars and servers.
# One that a test has stopped itself is left stopped.
set -eu

for=${FREEZE_FOR:-5}
every=${FREEZE_EVERY:-60}

# In a session of its own, of which the command is the leader.
setsid "$@" &
leader=$!
trap 'kill -TERM -- -$leader 2>/dev/null; exit 1' INT TERM

# running lists the processes of the session, and of its processes' sessions, that
# are not stopped already.
running() {
	ps -e -o pid=,ppid=,sid=,stat= | awk -v leader="$leader" '
		{parent[$1] = $2; session[$1] = $3; state[$1] = $4}
		function ours(pid) {
			return pid == leader || session[pid] == leader || pid in parent && pid > 1 && ours(parent[pid])
		}
		END {for (pid in parent) if (ours(pid) && state[pid] !~ /^[TZ]/) print pid}'
}

while kill -0 "$leader" 2>/dev/null; do
	left=$((every - for))
	while [ "$left" -gt 0 ] && kill -0 "$leader" 2>/dev/null; do
		sleep 1
		left=$((left - 1))
	done
	# Until nobody is left who could start another. One that waits in the kernel, for a
	# child that is stopped before it has become another program, stops when it comes back.
	stopped= passes=0
	while [ "$passes" -lt 20 ] && now=$(running) && [ -n "$now" ]; do
		# shellcheck disable=SC2086 # one argument per process
		kill -STOP $now 2>/dev/null || true
		stopped="$stopped $now" passes=$((passes + 1))
	done
	sleep "$for"
	# shellcheck disable=SC2086
	kill -CONT $stopped 2>/dev/null || true
	printf 'freeze: stood still for %s s\n' "$for"
done
wait "$leader"

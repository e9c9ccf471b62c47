#!/bin/sh
# Goes the newcomer's path as docs/first-hour.md has it: writes its files, runs its
# commands, and compares what they print. What would need the network is what
# test/e2e/install.sh has installed.
#
# usage: check-first-hour.sh PYTHON
set -eu
cd "$(dirname "$0")/.."
top=$PWD
python=$(realpath -s "$1")
page=$top/docs/first-hour.md

say() { printf 'check-first-hour: %s\n' "$*"; }
die() { printf 'check-first-hour: error: %s\n' "$*" >&2; exit 1; }

work=$(mktemp -d)
shop=
sidecar=
cleanup() {
	for pid in $sidecar $shop; do kill -KILL "$pid" 2>/dev/null || true; done
	rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 1' INT TERM

mkdir "$work/bin"
ln -s "$top" "$work/sidecall"
PATH=$work/bin:$PATH
# Addresses of its own, so that what runs on this machine is not in the way.
addr=unix://$work/s
port=$("$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')

elsewhere() { sed -e "s#tcp://127.0.0.1:8470#$addr#g" -e "s#9001#$port#g" -e 's#^store:#admin: "off"\nstore:#'; }

# until_it COMMAND... waits until it works, or a server has ended.
until_it() {
	tries=0
	until "$@" >/dev/null 2>&1; do
		for pid in $sidecar $shop; do kill -0 "$pid" 2>/dev/null || die "a server ended: $(cat "$work/log")"; done
		tries=$((tries + 1))
		[ "$tries" -lt 1200 ] || die "$*: does not work: $(cat "$work/log")"
		sleep 0.1
	done
}

answers() { "$python" -c "import socket; socket.create_connection(('127.0.0.1', $port)).close()"; }
# offers reports that the sidecar has found the tools of the MCP server, if it has one.
offers() {
	sidecall tools --addr "$addr" >"$work/tools" 2>/dev/null || return 1
	! grep -q 'prefix: notes_' "$here/sidecall.yaml" || grep -q '^notes_add ' "$work/tools"
}

# run COMMAND PRINTS FAILS
run() {
	code=0
	(cd "$here" && eval "$1") >"$work/out" 2>"$work/err" || code=$?
	if [ -n "$3" ]; then
		[ "$code" = 1 ] && grep -q "$3" "$work/out" || die "$1: exit code $code, not a failure with $3: $(cat "$work/out" "$work/err")"
	else
		[ "$code" = 0 ] || die "$1: exit code $code: $(cat "$work/out" "$work/err")"
	fi
	[ -z "$2" ] || [ "$(cat "$work/out")" = "$2" ] || die "$1: printed $(cat "$work/out"), and not $2"
	commands=$((commands + 1))
	say "ok: $1"
}

commands=0
here=$work/sidecall
step() {
	line=$1
	command=$(printf '%s\n' "$line" | sed 's/  *# \(prints\|fails\) .*//')
	prints=$(printf '%s\n' "$line" | sed -n 's/.*# prints //p')
	fails=$(printf '%s\n' "$line" | sed -n 's/.*# fails //p')
	case $command in
	"git clone "*) say "ok: $command (this is it)" ;;
	"export PATH="*) say "ok: $command (to a directory of its own)" ;;
	"go install "*) run "GOBIN=$work/bin $command" "" "" ;;
	"mkdir ../desk && cd ../desk") mkdir "$work/desk" && here=$work/desk ;;
	"python3 -m venv .venv")
		mkdir -p "$here/.venv/bin"
		printf '#!/bin/sh\nPYTHONPATH=%s exec %s -B "$@"\n' "$top/clients/python/src" "$python" >"$here/.venv/bin/python"
		chmod +x "$here/.venv/bin/python"
		;;
	".venv/bin/pip install "*)
		[ -f "$here/../sidecall/clients/python/pyproject.toml" ] || die "$command: no Python client there"
		grep -q '^mcp==2' test/e2e/python/requirements.txt || die "$command: the tests have another mcp"
		say "ok: $command (of test/e2e/install.sh)"
		;;
	"python3 shop.py")
		cd "$here" && { "$python" -B shop.py >>"$work/log" 2>&1 </dev/null & shop=$!; } && cd "$top"
		until_it answers
		say "ok: $command"
		;;
	"sidecall serve "*)
		if [ -n "$sidecar" ]; then
			kill -TERM "$sidecar" && { wait "$sidecar" || die "the sidecar did not end well: $(cat "$work/log")"; }
		fi
		cd "$here" && { $command >>"$work/log" 2>&1 </dev/null & sidecar=$!; } && cd "$top"
		until_it offers
		say "ok: $command"
		;;
	"sidecall tools"* | "sidecall call "*) run "$command --addr $addr" "$prints" "$fails" ;;
	"sidecall "* | ".venv/bin/python "*) run "$command" "$prints" "$fails" ;;
	*) die "a command that this check does not know: $command" ;;
	esac
}

# The blocks of the page in order, each as its language and name, its lines, and an end.
awk '/^```/ {if (inside) print "\001end"; else print "\001" substr($0, 4); inside = !inside; next} inside' "$page" >"$work/blocks"
kind=
while IFS= read -r line <&3; do
	case $line in
	$(printf '\001')end)
		case $kind in
		"python "*) elsewhere <"$work/block" >"$here/${kind#python }" ;;
		"yaml backends") # to be put below that key
			awk -v file="$work/block" '{print} /^backends:/ {while ((getline line < file) > 0) print line}' "$here/sidecall.yaml" >"$work/new"
			mv "$work/new" "$here/sidecall.yaml"
			;;
		"yaml "*) elsewhere <"$work/block" >"$here/${kind#yaml }" ;;
		esac
		;;
	$(printf '\001')*)
		kind=${line#?}
		: >"$work/block"
		;;
	*) if [ "$kind" = sh ]; then step "$line"; else printf '%s\n' "$line" >>"$work/block"; fi ;;
	esac
done 3<"$work/blocks"

# What the last program has printed: one result for each call, in order.
awk '{print $1, $2}' "$work/out" | tr '\n' ' ' | grep -q '^toolu_1 ok toolu_2 ok toolu_3 UNKNOWN_TOOL $' || die "agent.py printed $(cat "$work/out")"
grep -q "A-1 is paid back" "$work/out" || die "agent.py did not find the note: $(cat "$work/out")"
kill -TERM "$sidecar"
wait "$sidecar" || die "the sidecar did not end well: $(cat "$work/log")"
sidecar=
say "ok: $commands commands"

#!/bin/sh
# Goes the way to the first guarded call as docs/first-call.md has it, with packages that are
# made: writes its program, runs its commands, and compares what they print.
#
# usage: first-call.sh Python|Node DIRECTORY [OFFLINE]
# DIRECTORY/sidecall/dist has what the first command makes; what comes of it is left in
# DIRECTORY/first. OFFLINE has what the package requires, so that nothing is downloaded: a
# Python, or a node_modules.
set -eu
cd "$(dirname "$0")/.."
page=$PWD/docs/first-call.md
section=$1
offline=${3:-}
cd "$2"
work=$PWD
cd sidecall

say() { printf 'first-call: %s\n' "$*"; }
die() { printf 'first-call: error: %s\n' "$*" >&2; exit 1; }

unset SIDECALL_BINARY

# instead prints what stands for a command where nothing may be downloaded.
instead() {
	case $1 in
	"python3 -m venv .venv")
		echo "$offline -m venv --without-pip .venv && $offline -c 'import sysconfig; print(sysconfig.get_path(\"purelib\"))' >required.pth && mv required.pth .venv/lib/python*/site-packages/"
		;;
	".venv/bin/pip install "*) echo "$offline -m pip --python .venv/bin/python install -q --disable-pip-version-check --no-deps ${1#.venv/bin/pip install }" ;;
	"npm install "*) echo "$1 --offline --ignore-scripts $offline/@grpc/grpc-js $offline/@grpc/proto-loader" ;;
	*) echo "$1" ;;
	esac
}

step() {
	command=$1
	case $command in
	"make "*) say "left out, as it is done: $command" && return ;;
	esac
	[ -z "$offline" ] || command=$(instead "$command")
	from=$(date +%s)
	eval "$command" >"$work/out" 2>"$work/err" </dev/null || die "$1: $(cat "$work/out" "$work/err")"
	say "ok, $(($(date +%s) - from)) s: $1"
}

# The blocks of the section in order, each as its language and name, its lines, and an end.
awk -v section="## $section" '/^## / {here = $0 == section} !here {next}
	/^```/ {if (inside) print "\001end"; else print "\001" substr($0, 4); inside = !inside; next} inside' "$page" >"$work/blocks"
[ -s "$work/blocks" ] || die "$page has no section $section"
while IFS= read -r line <&3; do
	case $line in
	$(printf '\001')end)
		case $kind in
		sh) ;;
		text) diff "$work/block" "$work/out" >&2 || die "the page (<) says something else than is printed (>)" ;;
		*)
			file=${kind#* }
			mv "$work/block" "$file"
			lines=$(grep -c '' "$file")
			grep -qF "\`$file\` has $lines lines" "$page" || die "the page does not say that \`$file\` has $lines lines"
			;;
		esac
		;;
	$(printf '\001')*)
		kind=${line#?}
		: >"$work/block"
		;;
	*) if [ "$kind" = sh ]; then step "$line"; else printf '%s\n' "$line" >>"$work/block"; fi ;;
	esac
done 3<"$work/blocks"

#!/bin/sh
# Holds the documents to their word: runs the README's commands, with the
# README's own config, and checks the table of codes and the links of every page.
set -eu
cd "$(dirname "$0")/.."
top=$PWD

say() { printf 'check-readme: %s\n' "$*"; }
die() { printf 'check-readme: error: %s\n' "$*" >&2; exit 1; }

work=$(mktemp -d)
pid=
cleanup() {
	[ -z "$pid" ] || kill -KILL "$pid" 2>/dev/null || true
	rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 1' INT TERM

# blocks LANGUAGE PAGE prints the fenced blocks of that language in a page.
blocks() { awk -v fence="\`\`\`$1" '$0 == fence {inside = 1; next} /^```/ {inside = 0} inside' "$2"; }

# Links to files of this repository.
pages=$(git ls-files '*.md')
broken=$(
	for page in $pages; do
		[ -f "$page" ] || continue
		sed -n '/^```/,/^```/!p' "$page" | grep -oE '\]\([^)#]+' | sed 's/^](//' | grep -vE '^[a-z]+:' | while read -r link; do
			[ -e "$(dirname "$page")/$link" ] || echo "  $page: $link"
		done
	done
)
[ -z "$broken" ] || die "links to nowhere:
$broken"
say "links: ok"

# The table of codes.
sed -n 's/^| `\([A-Z_]*\)` | \([A-Z]*\) .*/\1 \2/p' docs/codes.md | sort >"$work/documented"
awk '
	/^\tCode[A-Za-z]+ +Code = "/ {split($0, q, "\""); code[$1] = q[2]}
	/^\tCode[A-Za-z]+: +\{/ {name = $1; sub(":", "", name); class = $2; gsub(/[{,]/, "", class); print code[name], toupper(class)}
' internal/tool/error.go | sort >"$work/real"
[ -s "$work/real" ] || die "no codes found in internal/tool/error.go"
diff "$work/documented" "$work/real" || die "the codes of docs/codes.md (<) are not those of internal/tool/error.go (>)"
say "codes: $(wc -l <"$work/real"), all documented"

# The commands, in a directory of their own. There is no admin port, so that a
# sidecar that runs on this machine is not in the way.
mkdir "$work/bin" "$work/agent"
go build -o "$work/bin/sidecall" ./cmd/sidecall
PATH=$work/bin:$PATH
addr=unix://$work/agent/sidecall.sock
blocks yaml README.md | sed -e 's#^admin:.*#admin: "off"#' >"$work/agent/sidecall.yaml"
grep -q '^listen: \["unix://${env:PWD}/sidecall.sock"\]' "$work/agent/sidecall.yaml" || die "the README's config does not listen on a socket beside it"

# ready waits until the sidecar serves.
ready() {
	tries=0
	until sidecall tools --addr "$addr" >/dev/null 2>&1; do
		kill -0 "$pid" 2>/dev/null || die "the sidecar ended: $(cat "$work/log")"
		tries=$((tries + 1))
		[ "$tries" -lt 100 ] || die "the sidecar does not answer: $(cat "$work/log")"
		sleep 0.1
	done
}

# run COMMAND in the agent's directory. It prints what its line in the README says.
run() {
	(cd "$work/agent" && eval "$1") >"$work/out" 2>&1 || die "$1: failed: $(cat "$work/out")"
	[ -s "$work/out" ] || die "$1: printed nothing"
	[ -z "$prints" ] || [ "$(cat "$work/out")" = "$prints" ] || die "$1: printed $(cat "$work/out"), and not $prints"
	say "ok: $1"
}

# The configs of the page about tools, which need a shop and a server to be served.
prints=
for language in yaml "yaml mcp"; do
	blocks "$language" docs/tools.md >"$work/agent/tools.yaml"
	[ -s "$work/agent/tools.yaml" ] || die "docs/tools.md has no $language"
	run "sidecall check tools.yaml"
done

# What is to install a published version. Not before there is one; what would keep it
# from working then.
published=$(grep -o 'go install [^ `]*@v[^ `]*' README.md) || die "the README does not say how a published version will be installed"
for target in $(printf '%s\n' "$published" | sed 's/^go install //'); do
	path=${target%@v*} version=${target##*@v}
	[ "$path" = "$(go list ./cmd/sidecall)" ] || die "$target: the path is $(go list ./cmd/sidecall)"
	grep -q "^## \[$version\]" CHANGELOG.md || die "$target: CHANGELOG.md has no version $version"
	! grep -q '^replace\|^exclude' go.mod || die "$target: go.mod has a replace or an exclude, which go install refuses"
	say "ok: go install $target (as far as it is known here)"
done

blocks sh README.md | grep . >"$work/commands" || die "the README has no commands"
while read -r line <&3; do
	command=$(printf '%s\n' "$line" | sed 's/ *#.*//')
	prints=$(printf '%s\n' "$line" | sed -n 's/.*# prints //p')
	case $command in
	"go install ./"*)
		(cd "$top" && GOBIN=$work/bin && export GOBIN && eval "$command") || die "$command: failed"
		say "ok: $command"
		;;
	"make test") make -n test >/dev/null && say "ok: $command (this run)" ;;
	"go run ./cmd/sidecall demo")
		(cd "$top" && eval "$command") </dev/null >"$work/out" 2>&1 || die "$command: failed: $(cat "$work/out")"
		go run ./tools/demosvg <"$work/out" | cmp - docs/demo.svg || die "docs/demo.svg is not what the demo prints: run make picture"
		say "ok: $command, and its picture"
		;;
	"sidecall serve "*)
		cd "$work/agent"
		export PWD
		$command >"$work/log" 2>&1 </dev/null &
		pid=$!
		cd "$top"
		ready
		say "ok: $command"
		;;
	"pip install ./clients/python")
		# As far as it needs no network: what the package requires is in the environment of
		# the end-to-end tests (make deps).
		python=$top/test/e2e/.venv/bin/python
		[ -x "$python" ] || { say "left out, as test/e2e/.venv is not installed (make deps): $command" && continue; }
		cp -R clients/python "$work/source" # setuptools leaves build directories behind
		"$python" -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation --target "$work/installed" "$work/source" || die "$command: failed"
		say "ok: $command"
		;;
	"python3 clients/"*)
		[ -d "$work/installed" ] || { say "left out too: $command" && continue; }
		ends=$(printf '%s\n' "$line" | sed -n 's/.*# ends with //p')
		mkdir "$work/five"
		mkdir -p "$work/five/clients/examples"
		ln -s "$top/clients/python" "$work/five/clients/python"
		cp "$top"/clients/examples/*.yaml "$work/five/clients/examples" # which is where its tickets are
		(cd "$work/five" && PWD=$work/five PYTHONPATH=$work/installed "$python" -B ${command#python3 }) >"$work/out" 2>&1 || die "$command: failed: $(cat "$work/out")"
		grep -qx "$ends" "$work/out" || die "$command: printed $(cat "$work/out"), and does not end with $ends"
		[ "$(grep -c . "$work/five/clients/examples/tickets.jsonl")" -eq 1 ] || die "$command: not one ticket in tickets.jsonl"
		say "ok: $command"
		;;
	'export SIDECALL_ADDR=unix://$PWD/sidecall.sock') cd "$work/agent" && eval "$command" && cd "$top" && say "ok: $command" ;;
	"sidecall "*) run "$command" ;;
	*) die "a command that this check does not know: $command" ;;
	esac
done 3<"$work/commands"

[ -n "$pid" ] || die "the README does not say how to serve"
kill -TERM "$pid"
wait "$pid" || die "the sidecar did not end well: $(cat "$work/log")"
pid=
say "ok"

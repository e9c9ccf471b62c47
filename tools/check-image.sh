#!/bin/sh
# Proves the content of the Docker image without a Docker engine: makes the
# files as the Dockerfile does, puts them where its COPY lines say into an empty
# directory, and runs the sidecar in there as the image's user, with nothing else
# to see: no shell, no libraries, no /tmp.
set -eu
cd "$(dirname "$0")/.."

MAX_MIB=64 # of the whole image

say() { printf 'check-image: %s\n' "$*"; }
die() { printf 'check-image: error: %s\n' "$*" >&2; exit 1; }

work=$(mktemp -d)
pid=
cleanup() {
	[ -z "$pid" ] || kill -KILL "$pid" 2>/dev/null || true
	rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 1' INT TERM
chmod 755 "$work"

# The last stage of the Dockerfile, continued lines joined.
stage=$(sed -e ':a' -e '/\\$/{N;s/\\\n//;ba' -e '}' Dockerfile | awk '/^FROM /{text = ""} {text = text $0 "\n"} END {printf "%s", text}')
one() { printf '%s\n' "$stage" | sed -n "s/^$1 //p"; }
[ "$(one FROM)" = scratch ] || die "the last stage is FROM $(one FROM), not scratch"
user=$(one USER)
home=$(one WORKDIR)
case $user in
0:* | root* | '') die "the image runs as root" ;;
*[!0-9:]*) die "USER $user: Kubernetes can check runAsNonRoot only for a number" ;;
esac
entrypoint=$(one ENTRYPOINT | tr -d '[]"')
environment=$(one ENV)

# The image that it is built in is named by a digest, so that nobody can move it, and has
# the version of Go that go.mod asks for at least.
image=$(sed -n 's/^ARG GO_IMAGE=//p' Dockerfile)
printf '%s\n' "$image" | grep -Eq '^golang:[0-9.]+@sha256:[0-9a-f]{64}$' || die "GO_IMAGE is $image: want golang:VERSION@sha256:DIGEST"
version=${image#golang:}
version=${version%%@*}
wanted=$(sed -n 's/^go //p' go.mod)
[ "$(printf '%s\n' "$wanted" "$version" | sort -V | head -n 1)" = "$wanted" ] || die "GO_IMAGE has Go $version, go.mod wants $wanted"

# Every package of the sidecar is in the build context.
for package in $(go list -deps -f '{{with .Module}}{{if .Main}}{{$.ImportPath}}{{end}}{{end}}' ./cmd/sidecall | sed "s#^$(go list -m)/##"); do
	grep -q "^!${package%%/*}\(/\|\$\)" .dockerignore || die ".dockerignore keeps package $package out of the image's build"
done

tools/image-root.sh "$work/out" image-check

root=$work/root
mkdir "$root"
one COPY | while read -r from rest; do
	[ "$from" = --from=build ] || die "COPY $from $rest: not from the build stage"
	owner=0:0
	case $rest in
	--chown=*) owner=${rest%% *} owner=${owner#--chown=} rest=${rest#* } ;;
	esac
	source=${rest%% *} target=${rest#* }
	case $source in
	/out/*) ;;
	*) die "COPY $source: not made by image-root.sh" ;;
	esac
	mkdir -p "$root$target"
	cp -R "$work$source." "$root$target"
	[ "$(id -u)" -ne 0 ] || chown -R "$owner" "$root$target"
done

binary=$root$entrypoint
[ -x "$binary" ] || die "the image has no $entrypoint"
# A static binary names no interpreter: no dynamic linker is asked for.
if LC_ALL=C grep -aqE '/lib[a-z0-9]*/ld-(linux|musl)' "$binary"; then
	die "$entrypoint asks for a dynamic linker"
fi
if command -v ldd >/dev/null 2>&1 && ldd "$binary" >/dev/null 2>&1; then
	die "$entrypoint is linked dynamically: $(ldd "$binary")"
fi
say "$entrypoint is static"

kib=$(du -sk "$root" | cut -f 1)
[ "$kib" -le $((MAX_MIB * 1024)) ] || die "the image has $((kib / 1024)) MiB, more than $MAX_MIB"
say "$((kib / 1024)) MiB in $(find "$root" -type f | wc -l) files:"
(cd "$root" && find . -type f | sed 's/^\./  /' | sort)

# tool NAME is the path of a program of this machine: the image's environment,
# which inside sets, has no PATH to find it by.
tool() { PATH=$PATH:/usr/sbin:/sbin command -v "$1" || die "there is no $1 here"; }

# inside COMMAND... runs a command in the image, as its user, with its environment, whose
# values have no spaces. It replaces this
# shell, so call it in a subshell.
inside() {
	if [ "$(id -u)" -eq 0 ]; then
		# chroot and not a container: it starts in /, so paths below are absolute.
		exec env -i $environment "$(tool chroot)" --userspec="$user" "$root" "$@"
	fi
	exec env -i $environment "$(tool unshare)" --user --map-user="${user%:*}" --map-group="${user#*:}" --root="$root" "$@"
}

version=$( (inside "$entrypoint" version) ) || die "sidecall version failed"
case $version in
*image-check*) say "$version" ;;
*) die "the version is not what it was built as: $version" ;;
esac

# What a user mounts: a config. The rest is the image's.
cat >"$root/etc/sidecall/sidecall.yaml" <<CONFIG
listen: ["unix://$home/sidecall.sock"]
admin: "off"
store:
  embedded: {path: $home/sidecall.db}
CONFIG
chmod 644 "$root/etc/sidecall/sidecall.yaml"
command=$(one CMD | tr -d '[]",')

# shellcheck disable=SC2086 # the words of CMD
(inside "$entrypoint" $command) >"$work/log" 2>&1 &
pid=$!
tries=0
until (inside "$entrypoint" tools --addr "unix://$home/sidecall.sock") >"$work/tools" 2>&1; do
	kill -0 "$pid" 2>/dev/null || die "the sidecar ended: $(cat "$work/log")"
	tries=$((tries + 1))
	[ "$tries" -lt 100 ] || die "the sidecar does not answer: $(cat "$work/tools" "$work/log")"
	sleep 0.1
done
[ -S "$root$home/sidecall.operator.sock" ] || die "the operator's socket is not in the volume"
grep -q read_output "$work/tools" || die "it does not list its tools: $(cat "$work/tools")"
[ -s "$root$home/sidecall.db" ] || die "the store is not in the volume"
if [ "$(id -u)" -eq 0 ]; then
	owner=$(stat -c %u:%g "$root$home/sidecall.db")
	[ "$owner" = "$user" ] || die "the store belongs to $owner, not to $user"
fi
kill -TERM "$pid"
wait "$pid" || die "the sidecar did not end well: $(cat "$work/log")"
pid=
say "served its tools as user $user, kept its store in $home, ended on SIGTERM"

# The demo kills and restarts a sidecar of its own, and for that wants /proc and
# /dev/null, as every container engine provides them.
if [ "$(id -u)" -eq 0 ] && unshare --mount --fork mount -t proc proc /proc 2>/dev/null; then
	mkdir "$root/proc" "$root/dev"
	: >"$root/dev/null"
	unshare --mount --fork sh -ec '
		mount -t proc proc "$1/proc"
		mount --bind /dev/null "$1/dev/null"
		exec env -i $2 "$3" --userspec="$4" "$1" "$5" demo
	' sh "$root" "$environment" "$(tool chroot)" "$user" "$entrypoint" >"$work/demo" 2>&1 </dev/null ||
		die "the demo failed: $(cat "$work/demo")"
	say "demo: $(grep . "$work/demo" | tail -n 1)"
else
	say "demo: not run, since this user may mount nothing here"
fi
say "ok"

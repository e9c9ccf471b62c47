#!/bin/sh
# Installs a directory once for all clones on this machine: it is kept in the user's
# cache under the hash of what it is made from, and PLACE is a link to it. A clone
# with other lock files gets another one.
#
# usage: kept.sh PLACE MADE_FROM COMMAND...
# MADE_FROM is a text: everything that decides what comes out. COMMAND gets an empty
# directory as its last argument, makes an entry in it that is called as PLACE is,
# and may refer to that path: nothing is moved.
set -eu

place=$1
key=$(printf '%s\n' "$@" "$(uname -sm)" | git hash-object --stdin)
shift 2
name=$(basename "$place")
cache=${XDG_CACHE_HOME:-$HOME/.cache}/sidecall/deps
kept=$cache/$(printf '%s' "$place" | tr / _)-$key

# use makes PLACE a link to what is kept.
use() {
	touch "$kept/.stamp" # it is in use
	at=$(readlink "$kept")/$name
	[ "$(readlink "$place" 2>/dev/null)" = "$at" ] && return
	rm -rf "$place"
	ln -s "$at" "$place"
}

# whole tells that what is kept is there.
whole() { [ -f "$kept/.stamp" ] && [ -e "$kept/$name" ]; }

if whole; then
	use
	echo "$place is up to date"
	exit
fi

echo "$place is being installed"
mkdir -p "$cache"
# What nobody has used for two months, and what was never finished.
for old in "$cache"/*; do
	[ -e "$old" ] || rm -f "$old"
	[ -d "$old" ] && [ ! -L "$old" ] || continue
	stamp=$old/.stamp days=60
	[ -f "$stamp" ] || stamp=$old days=1
	[ -z "$(find "$stamp" -prune -mtime +$days)" ] || rm -rf "$old"
done

new=$(mktemp -d "$cache/$(printf '%s' "$place" | tr / _).XXXXXX")
if ! "$@" "$new"; then
	rm -rf "$new"
	echo "$place could not be installed" >&2
	exit 1
fi
touch "$new/.stamp"
whole || rm -f "$kept" # a link to what is gone
ln -sn "$new" "$kept" 2>/dev/null || rm -rf "$new" # another was faster
use

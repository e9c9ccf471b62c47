#!/bin/sh
# Builds the sidecar as the packages have it.
#
# usage: binary.sh GOOS/GOARCH FILE VERSION
set -eu
cd "$(dirname "$0")/.."

CGO_ENABLED=0 GOOS=${1%/*} GOARCH=${1#*/} ${GO:-go} build -trimpath -buildvcs=false \
	-ldflags "-s -w -X main.version=$3" -o "$2" ./cmd/sidecall

#!/bin/sh
# Makes what the Docker image holds: DIRECTORY/root, which becomes /, and
# DIRECTORY/state, the empty volume. Both the Dockerfile and check-image.sh run
# it, so that what is checked is what is shipped.
#
# usage: image-root.sh DIRECTORY [VERSION]
set -eu
cd "$(dirname "$0")/.."

out=$1
version=${2:-}
certificates=${SSL_CERT_FILE:-/etc/ssl/certs/ca-certificates.crt}

mkdir -p "$out/root/usr/bin" "$out/root/etc/ssl/certs" "$out/root/etc/sidecall" "$out/state"
CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags "-s -w -X main.version=$version" \
	-o "$out/root/usr/bin/sidecall" ./cmd/sidecall
# For upstreams over https.
cp "$certificates" "$out/root/etc/ssl/certs/ca-certificates.crt"
chmod 644 "$out/root/etc/ssl/certs/ca-certificates.crt"

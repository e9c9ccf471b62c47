#!/bin/sh
# Checks the files below deploy/ without a cluster, an engine or a network: manifests,
# chart and Compose file by tools/deploy, the configs in them by sidecall check, the
# systemd unit by systemd where it is there.
set -eu
cd "$(dirname "$0")/.."
GO=${GO:-go}

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

mkdir -p "$dir/configs/secrets"
for secret in redis-password shop-token; do echo some-secret >"$dir/configs/secrets/$secret"; done
(
	cd "$dir/configs/secrets"
	$GO run "$($GO env GOROOT)/src/crypto/tls/generate_cert.go" -host redis -ca -ecdsa-curve P256 2>/dev/null
	cp cert.pem ca.crt
	mv cert.pem tls.crt
	mv key.pem tls.key
)
chmod -R go= "$dir/configs"
(cd tools/deploy && SIDECALL_CONFIGS="$dir/configs" $GO test -count=1 .)

$GO build -o "$dir/sidecall" ./cmd/sidecall
checked=0
for config in "$dir"/configs/*.yaml; do
	said=$(POD_NAME=agent-0 REDIS_PASSWORD=some-password SENTINEL_PASSWORD=some-password "$dir/sidecall" check "$config" 2>&1) || { echo "$said"; exit 1; }
	checked=$((checked + 1))
done
test "$checked" -ge 3 || { echo "check-deploy: only $checked configs were found"; exit 1; }
echo "check-deploy: $checked configs"

if ! command -v systemd-analyze >/dev/null; then
	echo "check-deploy: no systemd-analyze, so the unit is not checked"
	exit 0
fi
# The binary need not be installed for its unit to be right.
sed 's|/usr/bin/sidecall|/bin/true|' deploy/systemd/sidecall.service >"$dir/sidecall.service"
wrong=$(systemd-analyze verify --man=no "$dir/sidecall.service" 2>&1) || { echo "$wrong"; exit 1; }
test -z "$wrong" || { echo "$wrong"; exit 1; }
# 0 is a service without any right, 10 one that may do everything.
systemd-analyze security --offline=true --no-pager --threshold=20 "$dir/sidecall.service" | tail -1

#!/bin/sh
# The platforms that there are packages for, a line each: as Go calls it, as npm does, and
# as pip does. The binary is static: any Linux will do. Go wants macOS 12.
#
# usage: platforms.sh [PLATFORM...]
# A PLATFORM is GOOS/GOARCH, or "here"; without any: all.
set -eu

all='linux/amd64 linux-x64 manylinux2014_x86_64.musllinux_1_1_x86_64
linux/arm64 linux-arm64 manylinux2014_aarch64.musllinux_1_1_aarch64
darwin/arm64 darwin-arm64 macosx_12_0_arm64'

[ $# -gt 0 ] || echo "$all"
for platform; do
	[ "$platform" != here ] || platform=$(${GO:-go} env GOOS)/$(${GO:-go} env GOARCH)
	echo "$all" | grep "^$platform " || { echo "there is no sidecar for $platform" >&2; exit 2; }
done

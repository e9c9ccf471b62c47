#!/bin/sh
# Builds wheels of the Python package that carry the sidecar, one for each platform:
# pip install of one is the whole set-up.
#
# usage: wheels.sh PYTHON DIRECTORY [PLATFORM...]
# PYTHON has setuptools and wheel (e2e/python/requirements.txt). A PLATFORM is GOOS/GOARCH;
# without any: all that there are wheels for. "here" is the one of this machine.
set -eu
cd "$(dirname "$0")/.."

python=$1
out=$2
shift 2
[ $# -gt 0 ] || set -- linux/amd64 linux/arm64 darwin/arm64 windows/amd64
mkdir -p "$out"
go=${GO:-go}

# tag is what pip calls a platform. The binary is static: any Linux will do.
tag() {
	case $1 in
	linux/amd64) echo manylinux2014_x86_64.musllinux_1_1_x86_64 ;;
	linux/arm64) echo manylinux2014_aarch64.musllinux_1_1_aarch64 ;;
	darwin/arm64) echo macosx_11_0_arm64 ;;
	windows/amd64) echo win_amd64 ;;
	*)
		echo "wheels: there is no wheel for $1" >&2
		exit 2
		;;
	esac
}

version=$(sed -n 's/^version = "\(.*\)"$/\1/p' clients/python/pyproject.toml)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
for platform; do
	[ "$platform" != here ] || platform=$("$go" env GOOS)/$("$go" env GOARCH)
	tag=$(tag "$platform")
	rm -rf "$scratch/source" "$scratch/made"
	cp -r clients/python "$scratch/source" # setuptools leaves build directories behind
	binary=$scratch/source/src/sidecall/bin/sidecall
	[ "${platform%%/*}" != windows ] || binary=$binary.exe
	# As the image has it (image-root.sh).
	CGO_ENABLED=0 GOOS=${platform%%/*} GOARCH=${platform#*/} "$go" build -trimpath -buildvcs=false \
		-ldflags "-s -w -X main.version=$version" -o "$binary" ./cmd/sidecall
	"$python" -m pip wheel -q --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir "$scratch/made" "$scratch/source"
	"$python" -m wheel tags --remove --platform-tag "$tag" "$scratch"/made/*.whl >/dev/null
	echo "$platform: $(basename "$scratch"/made/*.whl)"
	mv "$scratch"/made/*.whl "$out/"
done

#!/bin/sh
# Tests the Node client with its own, locked dependencies.
set -eu
cd "$(dirname "$0")/../clients/node"
exec npm test --silent

#!/bin/sh
# Runs the unit tests, each once: Go and nothing else.
#
# usage: unit.sh [-without-e2e] [flags of go test, such as -race]
#        unit.sh -serial    prints the pattern of the tests that are not raced, see below,
#                           and in a line of its own their packages
#
# -without-e2e leaves out the packages that have end-to-end tests too: e2e.sh runs them.
set -eu
cd "$(dirname "$0")/.."
GO=${GO:-go}

# Words about words: nothing in these packages starts a goroutine or shares what it
# changes, so the race detector would find nothing, and it makes them ten times
# slower. What they have for many callers at once (a sync.Pool, a sync.OnceValue) is
# raced in the tests of server and in those end to end.
alone="./internal/call/explain ./docs ./internal/rules/history/failures ./internal/rules/loop/guard ./internal/interpret ./internal/output ./internal/pattern ./internal/redact ./internal/schema ./internal/tool ./test/prove/mutants ./test/testkit/repairs"
for package in $alone; do
	for file in "$package"/*.go; do
		case $file in *_test.go) continue ;; esac
		if grep -nE '^[[:space:]]*go [a-z]|\.Go\(|\bchan\b|sync\.(RW)?Mutex|sync\.Map|sync/atomic' "$file"; then
			echo "unit: $file does things at the same time: take $package off the list in tools/unit.sh" >&2
			exit 1
		fi
	done
done

# One caller who does the same some hundred times, or many who do on eleven kinds of Redis
# what TestOneServer does on one, in packages whose other tests are raced: once more the
# detector would see nothing new, and it makes them up to ten times slower.
serial="
./internal/call TestPayloadsInResults TestPayloadsInBlocks TestPayloadsInErrors TestPayloadsInItems
./internal/call TestPayloadsInPages TestPayloadsInDefinitions TestPayloadsOfTrustedTools
./internal/call TestEveryPartOfAResultCanBeLeftOut TestResultsThatDoNotFitBesideEachOther
./internal/app TestAnIdleSessionIsSmall TestAFacesRefusalIsShort TestASecretInTheWrongPlaceIsNotShown
./internal/app TestAListOfToolsIsReadWithoutCompilingIt
./internal/store/embedded TestDamageIsFound TestTornPagesAreFound TestALossOfPowerLeavesAWholeCommitOrNone
./internal/store/embedded TestLargeOutputsDoNotOutgrowTheFile TestALargeRecordIsMovedInAFullFile
./internal/store/embedded TestAFullStoreOfOpenCallsOpens TestWhatIsFoundIsMoved
./internal/store/journal TestEveryByteDamaged TestACrashAfterEachCallToTheDisk TestNothingAcknowledgedIsEverLost
./internal/store/redisstore TestEveryKindOfRedis TestKilledProcessesOfEveryKindOfRedis
./internal/definition TestAServerThatRenamesItsToolsFillsNothing
./retry TestBudgetChargesNothingForARefusal
./server TestWhatManyCallsAreToldFits TestAnOverviewFitsAMessage TestACompactedConversationIsServed
./server TestALargeFirstMessageIsNotLost TestALargeConversationIsReceived
./test/bench TestAllocationsOfACall
./test/e2e TestRepairOfCallsToRealServers TestPayloadsOfAnUntrustedServer
./test/e2e TestCLICheckNamesEveryMistake TestAServerWithALongListOfTools TestOutputsDoNotOutgrowTheVolume
"
all=$(grep -roE --include='*_test.go' --exclude-dir=node_modules --exclude-dir='.?*' '^func Test[A-Za-z0-9]+\(' .)
serial_packages=
serial_tests=
while read -r package tests; do
	for test in $tests; do
		if [ "$(printf '%s\n' "$all" | sed -n "s#/[^/]*:func $test(\$##p")" != "$package" ]; then
			echo "unit: $test is not in $package, or in others too: mend the list in tools/unit.sh" >&2
			exit 1
		fi
		serial_tests="$serial_tests|$test"
	done
	serial_packages="$serial_packages $package"
done <<EOF
$(printf '%s' "$serial" | grep .)
EOF
serial_tests="^(${serial_tests#|})\$"
[ "${1:-}" != -serial ] || { printf '%s\n%s\n' "$serial_tests" "$serial_packages"; exit; }

without=$alone
if [ "${1:-}" = -without-e2e ]; then
	shift
	e2e=$(tools/e2e.sh -packages)
	without="$without $e2e"
fi
packages=$($GO list -f '{{.Dir}}' ./... | sed "s#^$PWD#.#") # but those of which all is tagged
# shellcheck disable=SC2086 # one word per package
others=$(printf '%s\n' "$packages" | grep -vxF "$(printf '%s\n' $without)")
# shellcheck disable=SC2086
serial_packages=$(printf '%s\n' $serial_packages | sort -u | grep -xF "$packages" | grep -vxF "${e2e:--}")

# A test that has ended is not waited for: the race detector would do so for a second.
export GORACE="atexit_sleep_ms=0${GORACE:+ $GORACE}"

verdict=0
# go vet is a part of make lint.
# shellcheck disable=SC2086 # one argument per package
$GO test -vet=off -timeout 10m -skip "$serial_tests" "$@" $others || verdict=1
# shellcheck disable=SC2086
$GO test -vet=off -timeout 10m $alone || verdict=1
# shellcheck disable=SC2086
$GO test -vet=off -timeout 10m -run "$serial_tests" $serial_packages || verdict=1
exit $verdict

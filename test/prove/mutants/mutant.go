// Package mutants breaks the promises of the program on purpose, one at a time,
// and shows that the proofs notice: a proof that cannot fail proves nothing.
//
// A mutant is a change of a few words. It is applied by the overlay of the go
// command, so nothing in the tree is touched, embedded files included. The suite
// that is named for it has to pass without it and to fail with it, and to fail
// because a promise is broken: a mutant that does not compile, panics, or only runs
// into a time limit, counts as one that nobody caught.
package mutants

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
)

// Mutant is one broken promise.
type Mutant struct {
	// Name says what is broken.
	Name string
	// Edits are made together.
	Edits []Edit
	// Suite has to notice.
	Suite Suite
	// Short says that it is part of the short form.
	Short bool
}

// Edit replaces words of a function, or a text of a file, which must be there exactly once.
type Edit struct {
	// In is the function, "dedupe.Record.settle": the directory of its package, its type
	// and its name; or the file.
	In       string
	Old, New string
	by       *operator // breaks what has the words, in place of New; see operator.go
}

// Suite is a set of tests.
type Suite struct {
	// Package is its path in the module, Run the pattern of its tests' names.
	Package, Run string
	// Broken is what its output says when a promise is broken.
	Broken *regexp.Regexp
}

// The suites that catch the mutants.
var (
	notLinearizable = regexp.MustCompile(`not linearizable`)
	conformance     = regexp.MustCompile(`(?m)^\s+--- FAIL: Test(Conformance(InMemory)?|OneServer)/`)
	// values are the cases of the conformance suite about tallies and logs.
	sheets = regexp.MustCompile(`(?m)^\s+--- FAIL: TestConformance(InMemory)?/(a_prompt|what_did_not_run|what_changes|tallies|a_ceiling|logs|a_log|a_refusal)`)

	memoryHistories    = Suite{"./test/prove/histories", "^TestMemory$", notLinearizable}
	redisHistories     = Suite{"./test/prove/histories", "^TestRedis$", notLinearizable}
	embeddedHistories  = Suite{"./test/prove/histories", "^TestEmbedded$", notLinearizable}
	memoryConformance  = Suite{"./internal/store/embedded", "^TestConformanceInMemory$", conformance}
	memoryTallies      = Suite{"./internal/store/embedded", "^TestConformanceInMemory$", sheets}
	embeddedTallies    = Suite{"./internal/store/embedded", "^TestConformance$", sheets}
	callHistories      = Suite{"./test/prove/histories", "^TestCalls$", regexp.MustCompile(`(?m)^\s+calls_prove_test.go:\d+: history \d+`)}
	incarnations       = Suite{"./test/prove/histories", "^TestIncarnations$", regexp.MustCompile(`(?m)^\s+(calls|incarnations)_prove_test.go:\d+: history \d+`)}
	unsynced           = test("./internal/store/embedded", "TestNothingIsAnsweredThatIsNotSynced")
	valueTime          = test("./internal/store/embedded", "TestAValueKeepsItsTime")
	fileGone           = test("./internal/store/embedded", "TestTheFileUnderARunningStore")
	heldClaim          = test("./dedupe", "TestHeldCountsFromTheRequest")
	stoppedPredecessor = test("./dedupe", "TestAStoppedPredecessorDoesNothing")
	bids               = test("./dedupe", "TestBid")
	twoOfOneName       = test("./dedupe", "TestTwoOfOneNameAreToldApart")
	tenureFromRequest  = test("./dedupe", "TestATenureCountsFromTheRequest")
	forgottenTenure    = test("./dedupe", "TestATenureThatIsForgotten")
	sealedRecord       = test("./dedupe", "TestAnyByteOfASealedRecordCounts")
	decidedHolds       = test("./dedupe", "TestAHoldIsDecided")
	forgottenClaim     = test("./dedupe", "TestARunningCallThatTheStoreForgets")
	longCall           = test("./dedupe", "TestARunningCallOutlivesItsRetention")
	waiting            = test("./dedupe", "TestWaitingForAnotherProcess")
	unknownOutcome     = test("./internal/call", "TestAnUnknownOutcomeStaysUnknown")
	lostClaim          = test("./internal/call", "TestNothingIsSentUnderAClaimThatRanOut")
	storeDown          = test("./internal/call", "TestTheStoreIsDown")
	settlement         = test("./internal/call", "TestSettlementOutlivesTheCaller")
	leaving            = test("./internal/call", "TestACallerThatLeavesThrowsNoResultAway")
	reusedConnections  = test("./internal/backend/httptool", "TestExecuteThenCloseOnAReusedConnectionExecutesOnce")
	redirects          = test("./internal/backend/httptool", "TestRedirectsOfEffectfulRequestsAreNotFollowed")
)

// test is the suite of one test, the one that is about the broken promise: that
// some other test of its package fails, for whatever reason, shows nothing.
func test(pkg, name string) Suite {
	return Suite{pkg, "^" + name + "$", regexp.MustCompile(`(?m)^--- FAIL: ` + name + ` \(`)}
}

// changed are the texts of the mutant's files, by their paths. root is the directory of the module.
func (m Mutant) changed(root string) (map[string]string, error) {
	changed := map[string]string{}
	for _, e := range m.Edits {
		path, err := e.file(root)
		if err != nil {
			return nil, fmt.Errorf("mutant %q is stale: %w", m.Name, err)
		}
		if _, edited := changed[path]; !edited {
			text, err := os.ReadFile(path)
			if err != nil {
				return nil, err
			}
			changed[path] = string(text)
		}
		if changed[path], err = e.made(changed[path]); err != nil {
			return nil, fmt.Errorf("mutant %q is stale: %w", m.Name, err)
		}
	}
	return changed, nil
}

// overlay writes the mutant's files and the description of them for the go
// command into dir, and returns its path.
func (m Mutant) overlay(root, dir string) (string, error) {
	changed, err := m.changed(root)
	if err != nil {
		return "", err
	}
	replace := map[string]string{}
	for path, text := range changed {
		name := filepath.Join(dir, fmt.Sprintf("%d_%s", len(replace), filepath.Base(path)))
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			return "", err
		}
		replace[path] = name
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, text, 0o600)
}

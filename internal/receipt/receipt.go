// Package receipt finds out whether anything was changed or left out in what is kept of the
// effects of a conversation: the receipts, each of which has the hash of the one before it,
// and the records of the calls. It knows no store and no clock.
package receipt

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/tool"
)

// Call names a call of the conversation.
type Call struct{ Turn, ID string }

// Record is what is kept of a call.
type Record struct {
	dedupe.Outcome

	Finished time.Time
	// Receipted: its settlement leaves a receipt, where receipts are left.
	Receipted bool
}

// Noted is the head of the receipts as somebody has noted it before.
type Noted struct {
	Count int64
	Hash  string
}

// ParseNoted reads what Noted.String has written; nothing is nil.
func ParseNoted(text string) (*Noted, error) {
	if text == "" {
		return nil, nil //nolint:nilnil // nothing was noted
	}
	count, hash, _ := strings.Cut(strings.ToLower(text), ":")
	n, err := strconv.ParseInt(count, 10, 64)
	if sum, odd := hex.DecodeString(hash); err != nil || odd != nil || n < 1 || len(sum) != sha256.Size {
		return nil, fmt.Errorf("%s: want a head as it was told before, such as 12: and 64 hexadecimal digits", tool.Quote(text))
	}
	return &Noted{n, hash}, nil
}

// String is the head as it is noted.
func (n Noted) String() string { return fmt.Sprintf("%d:%s", n.Count, n.Hash) }

// Input is what is kept.
type Input struct {
	dedupe.Head

	Now time.Time // the store's
	// Lines are the receipts from the last one down, as far as they are read.
	Lines   []dedupe.Line
	Records map[Call]Record
	// Noted is a head of before; nil for none.
	Noted *Noted
}

// Report is what was found.
type Report struct {
	// Checked are the receipts that are there, Forgotten those before them.
	Checked, Forgotten int64
	// Calls have a record.
	Calls int
	// Since is when the first of those was written that are there; zero without any.
	Since    time.Time
	Problems []string
}

// slack is how long before its time something may be gone: a store's clock is its own.
const slack = time.Minute

// Verify compares what is kept.
func Verify(in Input) Report {
	v := verifier{Input: in, Report: Report{Calls: len(in.Records)}, last: map[Call]bool{}, hash: in.Hash, until: in.Until}
	v.compareNoted()
	for _, line := range in.Lines {
		if !v.line(line) {
			break
		}
	}
	if n := v.Noted; n != nil && n.Count < v.Count && !v.compared {
		v.problem("receipt %d was noted, and is not there to be compared, nor is the one after it: nothing shows that these go on from it", n.Count)
	}
	v.leftOut()
	return v.Report
}

type verifier struct {
	Input
	Report

	last map[Call]bool // the calls of which the last receipt was seen
	hash string        // of the next line, as the one after it says; empty where that is not known
	// until is when it is forgotten, likewise: by the retention of when it was written.
	until time.Time

	compared bool // with what was noted, which was not the last one
}

func (v *verifier) problem(format string, args ...any) {
	v.Problems = append(v.Problems, fmt.Sprintf(format, args...))
}

// compareNoted compares the chain with a head of before, which it must have grown from.
func (v *verifier) compareNoted() {
	n := v.Noted
	switch {
	case n == nil:
	case n.Count > v.Count:
		v.problem("there are %d receipts, and there were %d: some were taken off the end, unless all were forgotten because nothing was settled for as long as they are kept", v.Count, n.Count)
	case n.Count == v.Count && n.Hash != v.Hash:
		v.problem("the last receipt has another hash than was noted")
	}
}

// compareWithNoted compares the receipt that was the last one when that was noted; by the one
// after it, where it is forgotten.
func (v *verifier) compareWithNoted(line dedupe.Line) {
	hash := v.hash
	if line.Body != "" {
		hash = line.Hash()
	}
	if v.Noted == nil || v.Noted.Count != line.N || line.N == v.Count || hash == "" {
		return
	}
	if v.compared = true; v.Noted.Hash != hash {
		v.problem("receipt %d has another hash than was noted", line.N)
	}
}

// line looks at a receipt; false where those from here down are forgotten.
func (v *verifier) line(line dedupe.Line) bool {
	v.compareWithNoted(line)
	if line.Body == "" {
		return v.missing(line.N)
	}
	v.Checked++
	if v.hash != "" && v.hash != line.Hash() {
		v.problem("receipt %d is not the one that stood there when the one after it was written", line.N)
	}
	r, err := line.Receipt()
	if err != nil {
		v.problem("%v", err)
		v.hash, v.until = "", time.Time{}
		return true
	}
	v.hash, v.until, v.Since = r.Before, r.BeforeUntil, r.At
	if (r.N == 1) != (r.Before == "") {
		v.problem("receipt %d says that the one before it has the hash %q", r.N, r.Before)
	}
	if of := (Call{r.Turn, r.ID}); !v.last[of] {
		v.last[of] = true
		v.record(of, &r)
	}
	return true
}

// missing is told of a receipt that is not there: it is forgotten, unless it should still be
// kept.
func (v *verifier) missing(n int64) bool {
	if v.kept(v.until) {
		v.problem("receipt %d is missing: it is kept until %s", n, stamp(v.until))
		v.hash, v.until = "", time.Time{}
		return true
	}
	if v.until.IsZero() && n < v.Count { // nobody says when it was written: those before it may be there
		return true
	}
	v.Forgotten = n
	return false
}

// kept reports that what is kept until then is still there.
func (v *verifier) kept(until time.Time) bool { return v.Now.Before(until.Add(-slack)) }

// record compares the last receipt of a call with its record.
func (v *verifier) record(of Call, r *dedupe.Receipt) {
	record, there := v.Records[of]
	again := r.State == dedupe.NotRun.String() // it may be claimed again, closed, or held, and not any more
	switch {
	case !there && v.kept(r.Until):
		v.problem("the record of %s is missing: receipt %d says that it was settled %s, and it is kept until %s", named(of), r.N, stamp(r.At), stamp(r.Until))
	case !there, record.Outcome == r.Outcome, record.Finished.After(v.Now): // since the receipts were read
	case again && (record.Epoch > r.Epoch || record.State == dedupe.Closed.String() || record.State == dedupe.Held.String()):
	case again && record.State == r.State && record.Result == "":
	default:
		v.problem("the record of %s is not what receipt %d says of it: it is %s now, and was %s", named(of), r.N, record.State, r.State)
	}
}

// leftOut finds the calls that were settled since the first receipt that is there, and have none.
func (v *verifier) leftOut() {
	if v.Since.IsZero() {
		return
	}
	for of, record := range v.Records {
		if record.Receipted && !v.last[of] && record.Finished.After(v.Since) {
			v.problem("%s was settled %s, and has no receipt", named(of), stamp(record.Finished))
		}
	}
}

func named(of Call) string {
	if of.Turn == "" {
		return tool.Quote(of.ID)
	}
	return tool.Quote(of.ID) + " of turn " + tool.Quote(of.Turn)
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

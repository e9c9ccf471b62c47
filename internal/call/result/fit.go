package result

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/sidecall/sidecall/internal/output"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

const (
	// MostBytes is the most that a response has, encoded. gRPC clients take 4 MiB
	// unless told otherwise; what is larger none of them could ever receive.
	MostBytes = 3 << 20
	// worthLeaving is how large a part is that is left out, in bytes: less would
	// take no less room than the words about it.
	worthLeaving = 1 << 10
)

// Fitting are results that have to fit into one response. Of those that do not,
// the largest parts are left out; what is recorded of the call has them all the
// same. Which they are does not depend on the order in which the results come. The
// zero value is ready for use.
type Fitting struct {
	// Most is how many bytes the results may have; 0 means MostBytes.
	Most int

	total int
	parts []leavable
}

// leavable is a part of a response that can be left out.
type leavable struct {
	res *Response
	// place is that of the result in the response.
	place int
	size  int
	leave func()
}

// Fit makes the one result of a response fit.
func Fit(key tool.CallID, res *Response) *Response {
	if len(res.GetContent())+len(res.GetStructuredContentJson()) < MostBytes/4 &&
		len(res.GetBlocks()) == 0 && len(res.GetItems()) == 0 && len(res.GetViolations()) == 0 {
		return res // as most do
	}
	new(Fitting).Add(0, key, res)
	return res
}

// Add takes in the result of a call, at its place in the response, and leaves out
// what is too much, of this one or of those before.
func (f *Fitting) Add(place int, key tool.CallID, res *Response) {
	f.total += size(res)
	f.parts = append(f.parts, partsOf(place, key, res)...)
	for f.total > cmp.Or(f.Most, MostBytes) && len(f.parts) > 0 {
		largest := 0
		for i, p := range f.parts {
			if before := f.parts[largest]; p.size > before.size || p.size == before.size && p.place > before.place {
				largest = i
			}
		}
		p := f.parts[largest]
		f.parts = slices.Delete(f.parts, largest, largest+1)
		f.total -= size(p.res)
		p.leave()
		f.total += size(p.res)
	}
}

// size is what a result takes in a response, encoded.
func size(res *Response) int { return proto.Size(res) + 8 }

// partsOf are the parts of a result that can be left out.
func partsOf(place int, key tool.CallID, res *Response) (parts []leavable) {
	add := func(size int, leave func()) {
		if size >= worthLeaving {
			parts = append(parts, leavable{res: res, place: place, size: size, leave: leave})
		}
	}
	l := leaving{key: key, res: res}
	if res.GetIsError() {
		add(violationBytes(res), l.violations)
		add(len(res.GetRecovery().GetSuggestedArgumentsJson()), l.suggestion)
		add(len(res.GetRecovery().GetContext()), l.context)
		return parts
	}
	for i, b := range res.GetBlocks() {
		add(len(b.GetData())+len(b.GetText()), func() { l.block(i, b) })
	}
	add(len(res.GetStructuredContentJson()), l.structured)
	add(len(res.GetContent()), l.content)
	items := 0
	for _, item := range res.GetItems() {
		items += proto.Size(item)
	}
	add(items, l.items)
	return parts
}

// leaving leaves parts out of a result.
type leaving struct {
	key tool.CallID
	res *Response
	ref string // of the result as it was
}

// recorded is the handle of a part of the result; empty when it is not recorded.
func (l *leaving) recorded(part string) string {
	if l.ref == "" && l.res.GetRecorded() {
		l.ref = recordRef(l.key, l.res)
	}
	return output.PartRef(l.ref, part)
}

// What is said of parts that were left out.
const (
	leftOut  = "Parts of this result do not fit into one response with the others. "
	readThem = leftOut + "ReadOutput serves them by their output_ref."
	goneThey = leftOut + "They are not kept: send the call alone to get them."
)

func (l *leaving) block(i int, b *sidecallv1.ContentBlock) {
	if ref := l.recorded(strconv.Itoa(i + 1)); b.GetOutputRef() == "" {
		b.OutputRef = ref
	}
	b.Data, b.Text = nil, ""
	l.notice()
}

func (l *leaving) structured() {
	l.res.StructuredOutputRef = l.recorded(structuredPart)
	l.res.StructuredContentJson = ""
	l.notice()
}

// content leaves a note in the place of the content. What was cut already is read
// from where the whole of it is kept.
func (l *leaving) content() {
	chars := int64(utf8.RuneCountInString(l.res.GetContent()))
	truncation := &sidecallv1.Truncation{OriginalChars: chars, OutputRef: l.recorded(""), Strategy: output.Head}
	if before := l.res.GetTruncation(); before != nil {
		truncation.OriginalChars, truncation.Strategy = before.GetOriginalChars(), before.GetStrategy()
		if before.GetOutputRef() != "" {
			truncation.OutputRef = before.GetOutputRef()
		}
	}
	l.res.Truncation = truncation
	l.res.Content = output.LeftOut(truncation.GetOriginalChars(), truncation.GetOutputRef())
}

func (l *leaving) items() {
	_ = l.recorded("") // of the result as it was
	l.res.Notices = append(l.res.Notices, fmt.Sprintf("items are left out, %d of them: they do not fit into one response with the other results.", len(l.res.GetItems())))
	l.res.Items = nil
}

// violations leaves all but the first out.
func (l *leaving) violations() {
	left := len(l.res.GetViolations()) - 1
	if left <= 0 {
		return
	}
	l.res.Violations = l.res.GetViolations()[:1]
	e := l.res.GetError()
	l.res.Content = tool.RenderError(tool.Error{
		Code: tool.Code(e.GetCode()), Field: e.GetField(), Constraint: e.GetConstraint(), Received: e.GetReceived(), Hint: e.GetHint(),
	}, nil)
	l.res.Notices = append(l.res.Notices, fmt.Sprintf("%d more violations are left out: they do not fit into one response with the other results.", left))
}

// suggestion is left out without a word: the violations say what to correct.
func (l *leaving) suggestion() {
	l.res.Recovery.SuggestedToolName, l.res.Recovery.SuggestedArgumentsJson = "", ""
}

// context is left out without a word: the error says what went wrong.
func (l *leaving) context() { l.res.Recovery.Context = "" }

// violationBytes is how much all violations but the first take; they are in the
// content too.
func violationBytes(res *Response) (n int) {
	for _, v := range res.GetViolations()[min(1, len(res.GetViolations())):] {
		n += 2 * proto.Size(v)
	}
	return n
}

// notice says once that there is more.
func (l *leaving) notice() {
	note := readThem
	if !l.res.GetRecorded() {
		note = goneThey
	}
	if !slices.Contains(l.res.GetNotices(), note) {
		l.res.Notices = append(l.res.Notices, note)
	}
}

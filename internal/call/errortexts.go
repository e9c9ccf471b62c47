package call

import (
	"slices"
	"sync"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

const (
	// maxTexts is how many error texts are known of a tool, the latest of them.
	maxTexts = 10
	// maxTextTools bounds the tools of which some are: as many as a registry may well have.
	maxTextTools = 10_000
	// maxTextChars is how much of one is kept.
	maxTextChars = 300
)

// errorTexts are the errors that calls have ended in since the start of this process, by tool. The
// zero value is empty.
type errorTexts struct {
	mu     sync.Mutex
	byTool map[string][]*sidecallv1.ErrorText // the latest first
}

func (t *errorTexts) add(name string, e *sidecallv1.ToolError) {
	text := tool.Shorten(e.GetConstraint(), maxTextChars)
	t.mu.Lock()
	defer t.mu.Unlock()
	known, there := t.byTool[name]
	switch {
	case t.byTool == nil:
		t.byTool = map[string][]*sidecallv1.ErrorText{}
	case !there && len(t.byTool) == maxTextTools:
		return
	}
	one := &sidecallv1.ErrorText{Code: e.GetCode(), Constraint: text}
	if i := slices.IndexFunc(known, func(k *sidecallv1.ErrorText) bool { return k.GetCode() == e.GetCode() && k.GetConstraint() == text }); i >= 0 {
		one.Times = known[i].GetTimes()
		known = slices.Delete(known, i, i+1)
	}
	one.Times++
	one.LastAt = timestamppb.New(time.Now())
	t.byTool[name] = slices.Insert(known, 0, one)[:min(len(known)+1, maxTexts)]
}

// ErrorTexts are the errors that calls of a tool have ended in, the latest first.
func (e *Executor) ErrorTexts(name string) []*sidecallv1.ErrorText {
	e.texts.mu.Lock()
	defer e.texts.mu.Unlock()
	return slices.Clone(e.texts.byTool[name])
}

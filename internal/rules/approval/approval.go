// Package approval has the rule that a person is asked before a tool is called once more that has
// failed too often in the prompt.
package approval

import (
	"fmt"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/call/result"
	"github.com/sidecall/sidecall/internal/rules"
	"github.com/sidecall/sidecall/internal/tool"
)

// rule counts the failures of one tool in a log of the prompt, which no other tool has.
type rule struct {
	rules.Idle

	call  *rules.Call
	most  int
	place int
}

// New is the rules.Maker of the rule.
func New(c *rules.Call) rules.Rule {
	if c.Route == nil || c.UnknownProfile || c.Key.Conversation == "" || c.Route.Tool.Policy.ConfirmAfter == 0 || c.Route.Tool.Effect == tool.ReadOnly {
		return nil
	}
	return &rule{call: c, most: c.Route.Tool.Policy.ConfirmAfter}
}

// Ask implements rules.Rule.
func (r *rule) Ask(now *rules.Now, ask *rules.Ask) {
	if now.Answer == nil {
		r.place = ask.Log(r.log())
	}
}

// Hear implements rules.Rule. A call that was allowed goes on; so does one that may have run under
// its id, which can only be repeated under it.
func (r *rule) Hear(now *rules.Now, heard *rules.Heard) *rules.Refusal {
	if !now.Claimed && !heard.Asked || now.EarlierMayHaveRun || heard.Approved {
		return nil
	}
	failed := len(heard.Entries(r.place))
	if failed < r.most {
		return nil
	}
	return &rules.Refusal{Name: "approval", Hold: fmt.Sprintf("require_confirmation_after: %d; %s has failed so often in this prompt", r.most, r.call.Tool)}
}

// Leave implements rules.Rule. All is kept that a log may have: under the next config more failures may
// be allowed.
func (r *rule) Leave(now *rules.Now, _ *result.Response, leaves *rules.Leaves) {
	if now.Claimed && now.Sent > 0 && now.Failure != nil {
		leaves.Append(dedupe.Append{Log: r.log(), Entry: []byte{1}, Keep: dedupe.MaxLogEntries})
	}
}

func (r *rule) log() string { return rules.LogOf("approval/"+r.call.Tool+"/", r.call.Prompt) }

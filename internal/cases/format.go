package cases

import (
	"strconv"
	"time"

	"github.com/sidecall/sidecall/internal/config"
)

// file is a file of cases.
type file struct {
	Cases []oneCase `yaml:"cases" doc:"The cases, run one after the other, each on a sidecar and a store of its own." required:"true" items:"1"`
}

// oneCase is one call or several, with what the model must see of each.
type oneCase struct {
	Name    string            `yaml:"case" doc:"What the case is about; each has another name." required:"true"`
	Profile string            `yaml:"profile" doc:"Profile of its calls. Without this key: default_profile."`
	Answers map[string]answer `yaml:"answers" doc:"What tools answer where no fault says otherwise, by tool: also those that a verification asks."`
	Steps   []step            `yaml:"steps" one:"calls" doc:"Several calls, one after the other, in one conversation." items:"1"`

	step `yaml:",inline"`
}

// step is one call.
type step struct {
	Call   *call        `yaml:"call" one:"calls" doc:"The call, as the model makes it."`
	Fault  config.Value `yaml:"fault" doc:"What the backend does: one fault for every request of the call, or a list of them, request by request, after which it answers."`
	Answer *answer      `yaml:"answer" doc:"What the backend answers where no fault says otherwise. Without this key: that of answers, else {\"ok\": true}."`
	Expect *expectation `yaml:"expect" doc:"What must be seen of it."`
}

// call is what the model and its program say.
type call struct {
	Tool         string       `yaml:"tool" doc:"The name of the tool." required:"true"`
	Arguments    config.Value `yaml:"arguments" doc:"The arguments: a mapping, or a string that is sent as it is, for what is no JSON. Without this key: {}."`
	ID           string       `yaml:"id" doc:"tool_use_id. Without this key each call of a case has its own; the same id is the same call again."`
	Conversation string       `yaml:"conversation" doc:"conversation_id." default:"case"`
	Turn         string       `yaml:"turn" doc:"turn_id." default:"turn"`
}

// answer is what a backend answers when nothing is wrong with it.
type answer struct {
	Status  int               `yaml:"status" doc:"HTTP status." default:"200" min:"200" max:"599"`
	JSON    config.Value      `yaml:"json" doc:"The body as JSON; of an mcp tool its structured result."`
	Text    string            `yaml:"text" doc:"The body as plain text."`
	Headers map[string]string `yaml:"headers" doc:"HTTP headers."`
}

// expectation is what must be seen; what is not there is not looked at.
type expectation struct {
	Outcome          string        `yaml:"outcome" doc:"ok, empty, partial or error." enum:"ok|empty|partial|error"`
	Code             string        `yaml:"code" doc:"The code of the error."`
	Class            string        `yaml:"class" doc:"The class of the error."`
	Retryable        *bool         `yaml:"retryable" doc:"Whether the model may call again as the hint says."`
	RetriesExhausted *bool         `yaml:"retries_exhausted" doc:"Whether Sidecall's own attempts are used up."`
	RetryAfter       time.Duration `yaml:"retry_after" doc:"How long the model is told to wait."`
	Alternatives     []string      `yaml:"allowed_alternatives" doc:"The tools that may be called instead, in any order."`
	Suggested        config.Value  `yaml:"suggested_arguments" doc:"The corrected arguments that may be sent instead, whole."`
	Field            *string       `yaml:"field" doc:"The argument at fault; empty for the call as a whole."`
	Constraint       string        `yaml:"constraint" doc:"Pattern (RE2) that is found in what was violated."`
	Hint             string        `yaml:"hint" doc:"Pattern (RE2) that is found in the hint."`
	Content          string        `yaml:"content" doc:"Pattern (RE2) that is found in what the model gets."`
	Replayed         *bool         `yaml:"replayed" doc:"Whether it is the result of an earlier call."`
	Truncated        *bool         `yaml:"truncated" doc:"Whether the result was cut."`
	Attempts         *int          `yaml:"attempts" doc:"Requests that the backend got of this call." min:"0"`
	Effects          *int          `yaml:"effects" doc:"Effects that this tool has had at the backend, since the case began." min:"0"`
}

// steps are the calls of a case, one or several.
func (c *oneCase) steps() []step {
	if c.Call != nil {
		return []step{c.step}
	}
	return c.Steps
}

// stepPath leads to a call of a case in the file.
func (c *oneCase) stepPath(n int) []string {
	if c.Call != nil {
		return nil
	}
	return []string{"steps", strconv.Itoa(n)}
}

package config

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/sidecall/sidecall/internal/tool"
)

// Tool is a tool declared in the file. At most one block that is named as a kind of backend is
// not nil, and it is of its backend's kind.
type Tool struct {
	Backend      string            `yaml:"backend" doc:"Name of the backend it lives on." required:"true" format:"name"`
	Description  Text              `yaml:"description" doc:"What it does, for the model."`
	InputSchema  JSON              `yaml:"input_schema" doc:"JSON Schema of the arguments (draft 2020-12 unless $schema says otherwise). Without this key: any object."`
	OutputSchema JSON              `yaml:"output_schema" doc:"JSON Schema of the structured result."`
	Annotations  map[string]string `yaml:"annotations" doc:"Free hints for whoever lists the tools." keys:"nonempty"`

	HTTP *HTTPTool `yaml:"http" doc:"The request, on an http backend."`
	Exec *ExecTool `yaml:"exec" doc:"The command, on an exec backend."`
	MCP  *MCPTool  `yaml:"mcp" doc:"The server's tool, on an mcp backend. Without this key: the one of the same name."`

	CallRules `yaml:",inline"`
}

// HTTPTool is the request that a call becomes. Every map goes from a name in
// the request to the name of an argument.
type HTTPTool struct {
	Method            string            `yaml:"method" doc:"HTTP method." required:"true" enum:"GET|HEAD|POST|PUT|PATCH|DELETE"`
	Path              string            `yaml:"path" doc:"Path after base_url; {name} is replaced by an argument, escaped. A fixed query may follow after a question mark." required:"true" format:"url_path"`
	Query             map[string]string `yaml:"query" doc:"Query parameters: name to argument. Without this key: for GET, HEAD and DELETE all arguments not used elsewhere." keys:"nonempty" format:"nonempty"`
	Headers           map[string]string `yaml:"headers" doc:"Request headers: name to argument." keys:"header" format:"nonempty"`
	Body              *Body             `yaml:"body" doc:"The argument that is the whole JSON body, or a map of body members to arguments; {} for no body. Without this key: for POST, PUT and PATCH all arguments not used elsewhere."`
	IdempotencyHeader string            `yaml:"idempotency_header" doc:"Header that carries the idempotency key, the same for every attempt of a call." format:"header"`
	Result            string            `yaml:"result" doc:"The part of the JSON reply that is the result: a JSON pointer (/data/items) or a CEL expression over body."`
	Success           string            `yaml:"success" doc:"CEL condition that a reply must meet to be a success. Without this key: status 2xx."`
}

// ExecTool is the command that a call becomes; arguments arrive as one JSON
// object on its stdin, and the idempotency key of a keyed tool in the variable
// SIDECALL_IDEMPOTENCY_KEY.
type ExecTool struct {
	Argv      []Text           `yaml:"argv" doc:"Program and arguments. No shell, no placeholders: arguments are JSON on stdin." required:"true" items:"1"`
	ExitCodes map[int]ExitCode `yaml:"exit_codes" doc:"What exit codes other than 0 mean. Without an entry: UNRECOVERABLE; of a non_idempotent tool without fails_cleanly, of unknown outcome." keys:"exit_code"`
}

// ExitCode is what an exit code means: Success, or a failure with Code.
type ExitCode struct {
	Success             bool      `yaml:"success" one:"meaning" doc:"It is no failure, as grep's 1 for nothing found."`
	Code                tool.Code `yaml:"code" one:"meaning" doc:"It is a failure with this code."`
	Hint                string    `yaml:"hint" doc:"What the model should do next."`
	AllowedAlternatives []string  `yaml:"allowed_alternatives" doc:"Tools that may be called instead." format:"name"`
	NotExecuted         bool      `yaml:"not_executed" doc:"The exit code proves that nothing was done."`
}

// MCPTool names the server's own tool.
type MCPTool struct {
	Name string `yaml:"name" doc:"The tool's name at the server." required:"true"`
}

// CallRules say how calls of a tool are run and how replies are read. Zero
// means that nothing was said; Config.Policy fills in what then applies.
type CallRules struct {
	Effect            *tool.Effect  `yaml:"effect" doc:"What repeating a call does. Without this key: from the method of an http tool (GET and HEAD read_only, PUT and DELETE idempotent), else non_idempotent."`
	VerifyWith        string        `yaml:"verify_with" doc:"Read-only tool that can tell whether a call of unknown outcome has happened, named to the model. Without this key: verify.tool." format:"name"`
	EffectKey         *EffectKey    `yaml:"effect_key" doc:"Which calls have the same effect, whatever their ids: it is not had twice. See effects.md."`
	ApproveWhen       string        `yaml:"approve_when" doc:"CEL condition over args under which a person is asked before a call; always for every call. Such a call is held: nothing is sent, and it runs when it is sent again after somebody has allowed it. See approval.md."`
	ApprovalTTL       time.Duration `yaml:"approval_ttl" doc:"How long a call is held, and how long it may be sent once it is allowed; at most the retention. Without this key: 1h, or the retention where that is shorter." min:"1s" max:"8760h"`
	ConfirmAfter      int           `yaml:"require_confirmation_after" doc:"After so many failed calls of this tool in a prompt a person is asked before the next one, as under approve_when." min:"1" max:"64"`
	Verify            *Verify       `yaml:"verify" doc:"How to find out by itself what became of a call of unknown outcome."`
	RejectsBeforeWork []int         `yaml:"rejects_before_work" doc:"HTTP statuses that prove that this upstream did not start working: such a call is made again, whatever its effect, and is never of unknown outcome. Without this key: [429]. Write [429, 503] for one that also answers 503 only before the work, and [] for one that answers neither so." min:"400" max:"599"`
	FailsCleanly      bool          `yaml:"fails_cleanly" doc:"When the tool itself says that it failed (an exit code, an MCP isError or JSON-RPC error), it has done nothing. Without this key the outcome of such a non_idempotent call is unknown."`
	AttemptTimeout    time.Duration `yaml:"attempt_timeout" doc:"Time for one attempt. Without this key: defaults.attempt_timeout." min:"1ms" max:"24h"`
	Deadline          time.Duration `yaml:"deadline" doc:"Time for the whole call. Without this key: defaults.deadline." min:"1ms" max:"24h"`
	Retry             RetryRules    `yaml:"retry" doc:"Retry policy. Keys not written: defaults.retry."`
	MaxOutputChars    int           `yaml:"max_output_chars" doc:"The most characters of a result. Without this key: defaults.max_output_chars." min:"1" max:"7000000"`
	Output            string        `yaml:"output" doc:"How a result that is too long is cut. Without this key: defaults.output." enum:"auto|json|head|tail|head_tail"`
	Trust             Trust         `yaml:"trust" doc:"Whether its output is trusted, and it gets the caller's baggage. Without this key: what the backend says."`
	OnCancel          string        `yaml:"on_cancel" doc:"What becomes of an attempt whose caller leaves (cancels, loses its connection, or reaches its deadline). finish: it goes on and is recorded, and the id sent again gets its result. cancel: it is broken off, for tools that then undo what they have begun. read_only tools are always cancelled. Without this key: finish." enum:"finish|cancel"`
	Sequential        bool          `yaml:"sequential" doc:"Calls of one batch run one after the other, in request order."`
	Coerce            bool          `yaml:"coerce" doc:"Turn \"5\" into 5, and the like, where the schema wants it."`
	ForwardUndeclared bool          `yaml:"forward_undeclared" doc:"Send arguments that the input schema does not name. Without this key such a call is refused, unless the schema itself allows others (additionalProperties, patternProperties) or names no argument at all."`
	Polling           bool          `yaml:"polling" doc:"Calls with the same arguments and outcome are expected: the loop guard leaves them alone."`
	Sensitive         bool          `yaml:"sensitive" doc:"Refused once output of an untrusted tool has entered the prompt, unless the profile allows it. See untrusted.md."`
	SensitiveArgs     []string      `yaml:"sensitive_args" doc:"Arguments whose values are never shown." format:"nonempty"`
	MaxInFlight       int           `yaml:"max_in_flight" doc:"Calls of this tool in flight. Without this key: only the backend's bound." min:"1" max:"1000000"`
	Errors            []ErrorRule   `yaml:"errors" doc:"Replies that are errors, and which; the first rule that matches counts."`
	EmptyWhen         string        `yaml:"empty_when" doc:"CEL condition under which a success found nothing."`
	Recovery          RecoveryRules `yaml:"recovery" doc:"What its failed calls are told of what was tried before them. Keys not written: defaults.recovery."`
	CompensateWith    *Compensation `yaml:"compensate_with" doc:"How a call of it that has happened is undone: a tool, and its arguments. It is never undone by itself. See effects.md."`
	SearchKeys        []string      `yaml:"search_keys" doc:"The arguments that its calls can be found by, at most 4, as in recovery.target: sidecall find order_id=A-77. Their values are kept as hashes. Without this key: those of recovery.target, but for what is sensitive." format:"nonempty"`
	Partial           *Partial      `yaml:"partial" doc:"How a reply says which of its items were done; done(item) is what an item says of itself. See partial.md."`
}

func (r CallRules) check(w within) {
	if r.AttemptTimeout > r.Deadline && r.Deadline != 0 {
		w.in("attempt_timeout").warn("attempt_timeout is longer than the deadline of the whole call, which ends the attempt")
	}
	if r.ApprovalTTL != 0 && !r.asks() {
		w.in("approval_ttl").find(RuleUnused, "nobody is asked before a call of this tool: this says nothing without approve_when or require_confirmation_after")
	}
}

// asks reports that a person is asked before some calls.
func (r CallRules) asks() bool { return r.ApproveWhen != "" || r.ConfirmAfter > 0 }

// askedInVain says that a person is asked before calls of a tool that has no effect.
func (r CallRules) askedInVain(w within) {
	for key, set := range map[string]bool{"approve_when": r.ApproveWhen != "", "require_confirmation_after": r.ConfirmAfter > 0} {
		if set {
			w.in(key).bad("a read_only tool has no effect that a person would be asked for: remove " + key + ", or say what repeating a call does under effect")
		}
	}
}

// Verify says how the answer of a read-only tool decides what became of a call
// of unknown outcome. All but Tool, NotRunAfter and Timeout are CEL: DoneWhen,
// NotRunWhen and Result over the read-only tool's status, headers, result, text
// and is_error, and the args, tool_use_id, conversation_id, turn_id and
// idempotency_key of the call in question; Args over the latter five.
type Verify struct {
	Tool        string            `yaml:"tool" doc:"The read_only tool to ask." required:"true" format:"name"`
	Args        map[string]string `yaml:"args" doc:"Its arguments: name to CEL expression over the args, tool_use_id, conversation_id, turn_id and idempotency_key of the call in question." keys:"nonempty" format:"nonempty"`
	DoneWhen    string            `yaml:"done_when" doc:"CEL condition over its answer (result, status, is_error, text, headers) and args, under which the call has happened."`
	NotRunWhen  string            `yaml:"not_run_when" doc:"CEL condition under which the call has not happened, or not yet."`
	NotRunAfter time.Duration     `yaml:"not_run_after" with:"not_run_when" doc:"How long after the call's end not_run_when is believed: until then the request may still be under way. Without this key: attempt_timeout, at least 30s." min:"1s" max:"24h"`
	Result      string            `yaml:"result" with:"done_when" doc:"CEL expression: what the model gets as the result of a call that has happened. Without this key: a sentence."`
	Timeout     time.Duration     `yaml:"timeout" doc:"Time to ask, bounded by the read-only tool's attempt_timeout and by what is left of the call's deadline." min:"1ms" max:"1m" default:"5s"`
}

func (v Verify) check(w within) {
	if v.DoneWhen == "" && v.NotRunWhen == "" {
		w.bad("it can never decide: expected done_when, not_run_when, or both")
	}
}

// Compensation says how the effect of a call is undone by a call of another tool.
type Compensation struct {
	Tool string            `yaml:"tool" doc:"The tool that undoes it." required:"true" format:"name"`
	Args map[string]string `yaml:"args" doc:"Its arguments: name to CEL expression over the args, the result, text, status and headers of the call that is undone, and its tool_use_id, conversation_id, turn_id and idempotency_key." keys:"nonempty" format:"nonempty"`
}

// EffectKey says which calls of a tool do the same: a call under a new id that would
// do again what was done is not made.
type EffectKey struct {
	Args   []string      `yaml:"args" doc:"The arguments by which calls are the same; the input schema requires each." required:"true" items:"1" format:"nonempty"`
	Scope  string        `yaml:"scope" doc:"Whose calls are compared: those of one conversation, or of all of a tenant's. tenant is not possible on a Redis Cluster." enum:"conversation|tenant" default:"conversation"`
	Window time.Duration `yaml:"window" doc:"How long after its end an effect is not had again; at most the retention. Without this key: the retention." min:"1s" max:"8760h"`
}

func (e EffectKey) check(w within) {
	for i, name := range e.Args {
		if slices.Contains(e.Args[:i], name) {
			w.in("args", index(i)).bad("the argument " + quote(name) + " is named twice")
		}
	}
}

// scopeTenant is the scope of an effect that is its whole tenant's.
const scopeTenant = "tenant"

// readsKey reports whether an expression that decides names the idempotency
// key: then it is sent to be found again, not to be honoured.
func (v *Verify) readsKey() bool {
	if v == nil {
		return false
	}
	expressions := append(slices.Collect(maps.Values(v.Args)), v.DoneWhen, v.NotRunWhen)
	return slices.ContainsFunc(expressions, func(e string) bool { return strings.Contains(e, "idempotency_key") })
}

// RetryRules are the parts of a retry policy that a tool sets itself.
type RetryRules struct {
	MaxAttempts int           `yaml:"max_attempts" doc:"Attempts in all, the first included." min:"1" max:"100"`
	Base        time.Duration `yaml:"base" doc:"Ceiling of the first wait." min:"1ms" max:"1h"`
	Multiplier  float64       `yaml:"multiplier" doc:"Factor from one ceiling to the next." min:"1" max:"100"`
	Max         time.Duration `yaml:"max" doc:"The highest ceiling." min:"1ms" max:"1h"`
}

func (r RetryRules) check(w within) {
	if r.Base != 0 && r.Max != 0 && r.Base > r.Max {
		w.in("base").bad("base is longer than max: expected base <= max")
	}
}

// ErrorRule turns a reply into an error.
type ErrorRule struct {
	When                string    `yaml:"when" doc:"CEL condition over status, headers, result, text, is_error, exit_code and args." required:"true"`
	Code                tool.Code `yaml:"code" doc:"Code of the error." required:"true"`
	Hint                string    `yaml:"hint" doc:"What the model should do next."`
	Field               string    `yaml:"field" doc:"Path of the argument at fault."`
	AllowedAlternatives []string  `yaml:"allowed_alternatives" doc:"Tools that may be called instead." format:"name"`
	NotExecuted         bool      `yaml:"not_executed" doc:"Such a reply proves that nothing was done."`
}

// Partial reads the items of a call that was done in part. All are CEL; item
// stands for one item.
type Partial struct {
	Items   string `yaml:"items" doc:"The list of items, over result." required:"true"`
	OK      string `yaml:"ok" doc:"Whether an item was done, over item." required:"true"`
	ID      string `yaml:"id" doc:"What an item is called, over item: the model is told which ones are done and which are not. Without this key: by their index."`
	Content string `yaml:"content" doc:"What to show of an item that was done, over item."`
	Error   string `yaml:"error" doc:"What to show of an item that was not, over item."`
}

// methodEffect is the effect of an http tool that declares none, as RFC 9110
// section 9.2 means the methods.
func methodEffect(method string) tool.Effect {
	switch method {
	case http.MethodGet, http.MethodHead:
		return tool.ReadOnly
	case http.MethodPut, http.MethodDelete:
		return tool.Idempotent
	default:
		return tool.NonIdempotent
	}
}

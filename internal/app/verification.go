package app

import (
	"cmp"
	"time"

	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/config"
	"github.com/sidecall/sidecall/internal/interpret"
)

// leastNotRunAfter is the shortest time after which, unless the file says
// otherwise, an effect that is not there is taken not to come any more. A
// request may outlive the attempt that sent it: in a queue of the upstream, or
// of a proxy before it.
const leastNotRunAfter = 30 * time.Second

// compileVerification compiles what finds out by itself what became of a call
// of unknown outcome.
func compileVerification(route *catalog.Route, rules config.CallRules, wrong complaint) {
	v := rules.Verify
	if v == nil {
		return
	}
	program, err := interpret.CompileVerification(interpret.VerificationConfig{
		Args: v.Args, DoneWhen: v.DoneWhen, NotRunWhen: v.NotRunWhen, Result: v.Result,
	})
	if err != nil {
		wrong([]string{"verify"}, err)
		return
	}
	route.Verification = &catalog.Verification{
		Tool: v.Tool, Program: program, Timeout: v.Timeout,
		NotRunAfter: cmp.Or(v.NotRunAfter, max(route.Tool.Policy.AttemptTimeout, leastNotRunAfter)),
	}
}

// compileCompensation compiles how a call is undone.
func compileCompensation(route *catalog.Route, rules config.CallRules, wrong complaint) {
	c := rules.CompensateWith
	if c == nil {
		return
	}
	args, err := interpret.CompileArguments(c.Args)
	if err != nil {
		wrong([]string{"compensate_with"}, err)
		return
	}
	route.Compensation = &catalog.Compensation{Tool: c.Tool, Args: args}
}

package cases

import (
	"cmp"
	"regexp"
	"slices"
	"time"

	"github.com/sidecall/sidecall/internal/config"
	"github.com/sidecall/sidecall/internal/tool"
)

// What an attempt has at the least while cases run: the stand-ins answer at once, but
// the machine may have other things to do. Less where somebody waits on purpose, for
// an answer that does not come or as long as a backend asks for: all of it is waited.
const (
	leastWaited  = 500 * time.Millisecond
	leastStarted = 5 * time.Second
	leastAttempt = 5 * time.Second
)

// leastNotRunAfter is the default of verify.not_run_after, as docs/config.md says.
const leastNotRunAfter = 30 * time.Second

// pace is how many times faster than life a case runs: every time limit, wait and
// window of its config is divided by it, and what is told of times multiplied. So
// what fits into a deadline in life fits into it here.
type pace float64

// paceOf is the fastest at which every attempt at these tools still has its time.
func paceOf(called []target, least time.Duration) pace {
	if len(called) == 0 {
		return 1
	}
	shortest := slices.MinFunc(called, func(a, b target) int { return cmp.Compare(a.policy.AttemptTimeout, b.policy.AttemptTimeout) })
	return max(1, pace(float64(shortest.policy.AttemptTimeout)/float64(least)))
}

// least is what every attempt of a case has. A command has to be started for each.
func (c *oneCase) least(t targets) time.Duration {
	least := leastAttempt
	for _, s := range c.steps() {
		faults, err := readPlan(s.Fault)
		if err == nil && slices.ContainsFunc(faults.faults, func(f fault) bool { return f.kind == timesOut || f.retryAfter > 0 }) {
			least = leastWaited
		}
	}
	commanded := slices.ContainsFunc(c.steps(), func(s step) bool {
		called, ok := t.find(s.Call.Tool)
		return ok && t.transport(called.backend) == commands
	})
	if commanded {
		return max(least, leastStarted)
	}
	return least
}

// short is a time of life as it is here.
func (p pace) short(d time.Duration) time.Duration {
	if d <= 0 {
		return d
	}
	return max(time.Duration(float64(d)/float64(p)), time.Microsecond)
}

// long is the inverse of short, to a thousandth or so.
func (p pace) long(d time.Duration) time.Duration {
	if p == 1 {
		return d
	}
	return time.Duration(float64(d) * float64(p)).Round(10 * time.Millisecond)
}

// apply divides the times of a config.
func (p pace) apply(cfg *config.Config) {
	attempts := cfg.Defaults.AttemptTimeout
	cfg.Defaults.AttemptTimeout, cfg.Defaults.Deadline = p.short(attempts), p.short(cfg.Defaults.Deadline)
	cfg.Defaults.Retry.Base, cfg.Defaults.Retry.Max = p.short(cfg.Defaults.Retry.Base), p.short(cfg.Defaults.Retry.Max)
	for name, t := range cfg.Tools {
		p.rules(&t.CallRules, attempts)
		cfg.Tools[name] = t
	}
	for name, b := range cfg.Backends {
		b.Breaker.Window, b.Breaker.OpenFor = p.short(b.Breaker.Window), p.short(b.Breaker.OpenFor)
		if b.RateLimit != nil {
			b.RateLimit.PerSecond *= float64(p)
		}
		for tool, o := range b.Tools {
			p.rules(&o.CallRules, attempts)
			b.Tools[tool] = o
		}
		cfg.Backends[name] = b
	}
}

func (p pace) rules(r *config.CallRules, attempts time.Duration) {
	if v := r.Verify; v != nil { // its timeout stays: no fault lets it pass
		v.NotRunAfter = p.short(cmp.Or(v.NotRunAfter, max(cmp.Or(r.AttemptTimeout, attempts), leastNotRunAfter)))
	}
	for _, d := range []*time.Duration{&r.AttemptTimeout, &r.Deadline, &r.Retry.Base, &r.Retry.Max} {
		*d = p.short(*d)
	}
}

// toldTimes are the times that hints speak of.
var toldTimes = regexp.MustCompile(`\b(after|over) ((?:\d+h)?(?:\d+m)?\d+(?:\.\d+)?(?:ms|µs|s))\b`)

// tell makes what is told of times that of life.
func (p pace) tell(text string) string {
	return toldTimes.ReplaceAllStringFunc(text, func(told string) string {
		parts := toldTimes.FindStringSubmatch(told)
		d, err := time.ParseDuration(parts[2])
		if err != nil {
			return told
		}
		return parts[1] + " " + tool.RoundTime(p.long(d)).String()
	})
}

// ownTimes are codes whose waits are Sidecall's own, and no setting's.
func ownTimes(code tool.Code, attempts int) bool {
	switch code {
	case tool.CodeOverloaded, tool.CodeInProgress, tool.CodeStoreUnavailable:
		return true
	case tool.CodeDependencyUnavailable:
		return attempts == 0
	default:
		return false
	}
}

package catalog

import "sync/atomic"

// Withdrawal tells the calls that hold a route that its tool is refused since: they
// may have been waiting for its server, which came back and says something else.
// nil is of a tool that never is.
type Withdrawal struct{ why atomic.Pointer[string] }

// Withdraw refuses what has not been sent yet.
func (w *Withdrawal) Withdraw(why string) { w.why.Store(&why) }

// Why the tool is refused; empty when it is not.
func (w *Withdrawal) Why() string {
	if w == nil {
		return ""
	}
	if why := w.why.Load(); why != nil {
		return *why
	}
	return ""
}

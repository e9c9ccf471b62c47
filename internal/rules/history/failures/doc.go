// Package failures tells a model what has been tried. When a call has failed, it
// makes two things of the failure and of those before it in the conversation: a
// block of text for recovery.context, and the entries by which later failures will
// know of this one.
//
//	operation, target ──LogOf──▶ name of a log ──admission──▶ its last entries ─┐
//	                              RecentLog ──────admission──▶ its last entries ─┤
//	                                                                             ▼
//	                     the call fails ──────────────Failure──────────▶ Advisor.Explain
//	                                                                             │
//	               response ◀── Advice.Context        settlement ◀── Advice.Entry, Recent
//
// A model that gets only an error repeats the call, since it knows nothing but the
// error. The block has what it needs to do something else: the operation and its
// target, the error word for word, every earlier attempt at the same operation and
// target with what was different in it, and suggestions from a catalogue that is
// written down beforehand, without those that were tried.
//
// There are three conditions under which such a block does harm, and it backs off
// in each:
//
//   - little room is left in the prompt: the block has a cap, takes at most a
//     twentieth of what is left, and lets the oldest attempts go first;
//   - many operations fail alike: the same advice on each of them is noise, so there
//     is one line that says what it is (outage.go);
//   - the tools have changed since the catalogue was written: a suggestion that names
//     a tool which may not be called now is left out, and Gone reports it at start.
//
// The room is pure: no store, no clock, no lock. It reads what the admission
// brought and makes what the settlement takes. What a call that works pays is the
// name of its log, and nothing where no log is asked for.
//
// What it is given is kept and shown: arguments must have lost what the tool's
// schema calls sensitive before they come here, and texts of upstreams their
// secrets and control characters.
package failures

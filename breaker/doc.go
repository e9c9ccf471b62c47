// Package breaker stops sending calls to a backend that is failing, and finds
// out by single probes when it is well again.
//
//	┌────────────────┐   enough failures   ┌───────────────────────┐
//	│     closed     │ ──────────────────▶ │         open          │
//	│ lets all calls │                     │ refuses all calls and │
//	│ through        │                     │ says for how long     │
//	└────────────────┘                     └───────────────────────┘
//	         ▲                                ▲              │
//	         │ success                failure │              │ OpenFor is over
//	         │                                │              ▼
//	┌──────────────────────────────────────────────────────────────┐
//	│      half-open: lets one call at a time through, a probe     │
//	└──────────────────────────────────────────────────────────────┘
//	   ignored, or lost for ProbeTimeout: the next call is the probe
//
// The state machine and the rolling window are sony/gobreaker's. What is added:
//
//   - A probe whose result never comes (a panic, a forgotten done) holds
//     gobreaker in half-open for good: that state has no timeout there. Here
//     a probe loses its place after ProbeTimeout, and the next call is the
//     probe. No timer is needed for it: only a call that wants the place
//     cares, so such a call looks whether the place has run out.
//   - gobreaker dates a result to the moment its call began, and drops it when
//     that moment has left the window. A backend that hangs until a timeout as
//     long as the window (30 s is the default of both) would never trip it.
//     Here a result is counted when it arrives.
//   - gobreaker calls its OnStateChange under its mutex, so a listener that
//     asks for the state is stuck. Here OnChange is called without any lock.
//
// # When it trips
//
// In the closed state a failure trips the breaker when the window holds at
// least Settings.Failures failures and one of these is true:
//
//   - They are at least half of the outcomes in the window. That is the rule
//     for little traffic: of six calls in half a minute five failed.
//   - At least Settings.Failures of them, and at least one per cent of the
//     outcomes in the window, came without a success in between. That is the
//     rule for a busy backend that dies: the successes of the last half minute
//     would hide its death until half a minute of failures has outweighed
//     them. The one per cent keeps chance out: of 30,000 calls of which a
//     tenth fail, five in a row fail every minute or two, three hundred never.
//
// A busy backend that fails now and then is not cut off: its failures reach the
// count in no time, but neither the half nor the run. Up to five hundred outcomes
// per window the second rule reads: five in a row.
//
// Successes and failures are counted, nothing else. What says nothing about the
// backend's health (cancelled by the caller, refused before anything was sent)
// is Ignored: it neither trips nor closes the breaker, and in half-open it hands
// the probe's place on.
package breaker

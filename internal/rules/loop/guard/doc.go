// Package guard finds out when a model goes round in circles. It is rules over the
// log of a prompt, and nothing else: no store, no transport, no clock. A judgement
// is a function of the entries, the call and the thresholds of the profile.
//
//	          admission brings the log                 settlement appends an entry
//	call ───▶ Guard.Before ──▶ LOOP_DETECTED   ───▶ Guard.After ──▶ a nudge
//	               │           nothing is sent          ▲
//	               └───────────── the effect ───────────┘
//
//	turned away before that (invalid, unknown, forbidden): its entry is appended and
//	the log brought in one trip, and Guard.TurnedAway judges by that.
//	several calls at once: Guard.Batch judges them by each other, before all this.
//
// # The rules
//
//	rule         what is counted                                          nudge  refuse
//	same_call    the same call, with the same outcome each time               3       4
//	             across something new that was done                           9      25
//	cycle        rounds of 2 or 3 calls, with the same outcomes each time     2       3
//	same_error   the same error of a tool, with other arguments               4       6
//	same_result  a read-only tool finds nothing, with other arguments         5      25
//	malformed    invalid and unknown calls in a row                           3       5
//	duplicate    the same call in one batch: with an effect                   –       2
//	                                         without                          2       4
//
// The present call counts: the fourth one is refused, and was not sent. A warning
// changes nothing, a refusal does; so a rule that is sure does not nudge for long. The
// refusals
// of one loop, and those in a row, are counted: from the second on a person has to be
// asked, from the fourth on the program is told to stop.
//
// The numbers are measured on recorded runs (testdata/rules.md): a call and outcome
// that came three times was part of no run that succeeded. The vaguer a rule, the
// later it speaks, and the longer it only speaks.
//
// A question that is put in other words is the same call (Words): of a tool that only
// reads, in few words, some of which are left out or added.
//
// # What is healthy
//
//   - Another outcome ends the count of same_call, cycle, same_error and same_result. So
//     does a success of the tool that of its errors: polling with progress, paging,
//     a retry after a fix.
//   - Something new was done: a call with an effect succeeded that had not before.
//     The world is another one, and what was tried may be tried again, as in editing
//     and testing. Yet some tools only look as if they did something, for nobody has
//     declared them read-only, and some edits change nothing. So the count goes on
//     beside the new one, with much higher limits (AcrossEffects).
//   - Something new was read, with another tool: that ends same_result, so that
//     searches among which something was found out are no loop.
//   - A tool that is declared as polling may give the same answer for ever. That
//     takes it out of same_call, cycle, same_result and duplicate; same_error counts
//     its repetitions once. A tool that waits is a polling tool too.
//   - The same result with other arguments says nothing, unless it is that there is
//     none: thirty writes are "ok", and so are a hundred checks.
//   - Who made several calls at once had not seen what came of the others. Two of
//     them count; in a cycle none.
//   - A call that is sent again under its id is one call.
//   - What failed because an upstream is away, in whatever number: a breaker is for that,
//     unless it is the same call again that may have had its effect.
//   - Different calls of which nobody knows whether they happened.
//   - Nobody called anything for ten minutes: whoever comes then is not in the loop of
//     before.
//
// # After a refusal
//
// same_call and cycle keep refusing: what the call leads to is known. same_error and
// same_result cannot tell the next guess from another approach with the same tool,
// and refusing both for good would lock an agent out that has one tool for
// everything. So they let one call through after each refusal, on trial, until the
// program has been told to stop.
//
// # Which calls get an entry
//
// Each one that was answered by a tool or by an error that the model can go round in
// circles about, including those that were turned away. No entry is due for replays
// and duplicates of a call in flight, for ID_REUSED, BUDGET_EXCEEDED,
// CANCELLED, INTERNAL and what is TRANSIENT, for a call that is only validated, and
// for a duplicate in a batch.
//
// # What it costs, and how it goes wrong
//
// An entry has some 70 bytes, and a log is of use up to LogEntries of them. A
// judgement looks at each pair of them at most once. A log that is cut shorter, or
// of which not all can be read, leads to fewer refusals and never to more; the one
// thing that is taken from times is which calls were made at once, so
// clocks that differ by less than the model takes to answer do no harm.
//
// The words are internal/call/explain's: a Verdict has the facts for them.
package guard

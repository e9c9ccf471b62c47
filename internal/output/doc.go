// Package output turns what a backend brought back into what a model receives,
// and keeps the rest within reach.
//
//	Reply ─▶ compose ─▶ clean ─▶ fits? ─ yes ─▶ mark untrusted ─▶ Content
//	                               └ no ─▶ cut ─▶ mark ─▶ notice ─▶ Content, Kept
//
// Cleaning removes what a reader cannot see: broken UTF-8, control characters,
// terminal sequences, invisible and bidirectional Unicode (see Clean). In JSON it
// reaches through the escapes into the strings and leaves the JSON valid.
//
// A limit counts characters (Unicode code points) of all that the model gets:
// notice, boundary and markers included. No limit, however small, is exceeded.
// From MinLimit on the notice is complete: the call succeeded, how much of how
// much is shown, and how to read the rest. Below it the notice gets shorter, in
// steps, down to a single "…".
//
// # JSON stays JSON
//
// Strategy json cuts values, not text: arrays lose their tail, strings their
// middle, objects their largest members; each place says how much it lost. Key
// order and the digits of numbers are kept. White space goes first: when that
// alone makes the result fit, nothing counts as cut. The notice is the first
// member of an object around the result, so that the content as a whole is one
// JSON document:
//
//	{"_truncated":"The call succeeded; …","result":{"items":[1,2,"[98 of 100 items left out]"]}}
//
// Untrusted JSON is valid between its tags instead, and its notice stands behind
// them: an instruction to the model must not stand among what it is told to
// take for mere data.
//
// A remark of the sidecar (see Input.Remarks) is a member before the result likewise.
//
// # The boundary
//
// Untrusted text stands between tags whose name has 40 random bits, drawn when the
// result is shaped and stored with it: whoever wrote the text has one guess. A tag of
// another name is text like any other. Where a limit has no room for the tags, the
// text is not shown at all.
package output

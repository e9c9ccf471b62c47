package output

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"strings"
)

// The parts of a handle.
const (
	refMark = "out_"
	// nonceChars are 90 random bits: who does not have the handle cannot guess it.
	nonceChars = 18
	// tagChars are 40 bits of a hash of the nonce and the conversation. They need
	// not withstand who can choose a conversation: that one can name the right one.
	tagChars = 8
)

// RefMember is the member of an object that stands for an output among arguments.
const RefMember = "$output_ref"

// Refers reports that arguments may refer to outputs: all that a call pays that does
// not. Who escapes the name has written something else.
func Refers(arguments string) bool { return strings.Contains(arguments, RefMember) }

// NewRef returns the handle of an output that is kept for a conversation: letters,
// digits and one underscore.
func NewRef(conversation string) string {
	nonce := rand.Text()[:nonceChars]
	return refMark + nonce + tag(nonce, conversation)
}

// IsOf reports whether the handle of a kept output is one of the conversation's.
func IsOf(ref, conversation string) bool {
	rest := strings.TrimPrefix(ref, refMark)
	return len(rest) == nonceChars+tagChars && tag(rest[:nonceChars], conversation) == rest[nonceChars:]
}

// tag is what binds a handle to its conversation. It is part of the name under which
// the output is kept: another one leads to no output.
func tag(nonce, conversation string) string {
	sum := sha256.Sum256([]byte(nonce + conversation))
	return base32.StdEncoding.EncodeToString(sum[:])[:tagChars]
}

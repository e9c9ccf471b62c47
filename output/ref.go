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
	// tagChars are 40 bits of the hash of the rest and the conversation. They need
	// not withstand who can choose a conversation: that one can name the right one.
	tagChars = 8
)

// tagLetters are those that rand.Text has not: by its last ones a handle is told
// from one of a version before, which is random to its end.
const tagLetters = "abcdefghijklmnopqrstuvwxyz0189-_"

var tagEncoding = base32.NewEncoding(tagLetters)

// NewRef returns the handle of an output that is kept for a conversation, of
// [A-Za-z0-9_-].
func NewRef(conversation string) string {
	nonce := rand.Text()[:nonceChars]
	return refMark + nonce + tag(nonce, conversation)
}

// IsOf reports whether the handle of a kept output is one of the conversation's. One
// of a version before says nothing of that, and is read by whoever has it until
// the output expires.
func IsOf(ref, conversation string) bool {
	rest := strings.TrimPrefix(ref, refMark)
	if len(rest) != nonceChars+tagChars {
		return false
	}
	return !strings.ContainsAny(rest, tagLetters) || tag(rest[:nonceChars], conversation) == rest[nonceChars:]
}

// tag is what binds a handle to its conversation. It is part of the name under which
// the output is kept: another one leads to no output.
func tag(nonce, conversation string) string {
	sum := sha256.Sum256([]byte(nonce + conversation))
	return tagEncoding.EncodeToString(sum[:])[:tagChars]
}

package failures

import (
	"crypto/sha256"
	"encoding/base64"
)

const (
	// RecentLog is the name of the log of a conversation's latest failures.
	RecentLog = "failed"
	// KeptAttempts is how many entries the log of an operation and target holds, and
	// KeptRecent how many RecentLog does.
	KeptAttempts = 16
	KeptRecent   = 12
	// MaxEntryBytes bounds an entry of any log.
	MaxEntryBytes = 900
)

// LogOf is the name of the log of an operation and target in a conversation: short,
// of letters, digits, - and _, and another one for another pair.
func LogOf(operation, target string) string {
	var room [512]byte
	sum := sha256.Sum256(append(append(append(room[:0], operation...), 0), target...))
	name := append(room[:0], RecentLog...)
	return string(base64.RawURLEncoding.AppendEncode(append(name, '-'), sum[:12]))
}

package call

import (
	"crypto/sha256"
	"encoding/base64"

	"github.com/sidecall/sidecall/budget"
	"github.com/sidecall/sidecall/dedupe"
)

// logbook is what a call reads in the logs of its conversation, and what it leaves in
// them: with its claim and its settlement, or with the one look at a call that is
// refused before it is claimed. What is not asked for costs nothing.
type logbook struct {
	names   []string
	room    [dedupe.MaxLogs]string // of names
	read    dedupe.Logs
	appends []dedupe.Append
}

// ask names a log that is wanted, before the store is asked; entries finds it at the
// place returned.
func (b *logbook) ask(name string) (place int) {
	if b.names == nil {
		b.names = b.room[:0]
	}
	b.names = append(b.names, name)
	return len(b.names) - 1
}

// entries are those of the log at a place, the oldest first; nil when the store did
// not say.
func (b *logbook) entries(place int) [][]byte {
	if place >= len(b.read) {
		return nil
	}
	return b.read[place]
}

// write leaves an entry, in the step that settles the call, or that looks at it.
func (b *logbook) write(a dedupe.Append) { b.appends = append(b.appends, a) }

// logOf is the name of the log of some kind that a prompt has.
func logOf(kind, prompt string) string {
	name := kind + budget.Counter(prompt)
	if len(name) <= dedupe.MaxLogBytes {
		return name
	}
	sum := sha256.Sum256([]byte(prompt))
	return kind + "#" + base64.RawURLEncoding.EncodeToString(sum[:])
}

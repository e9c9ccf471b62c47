// Package redact takes secrets out of what tools say, whole and in the encodings
// in which they turn up by accident: URL-encoded, inside JSON strings, and in
// base64, alone or within something longer.
//
// It is no wall against a tool that wants to give its secret away: such a tool can
// spell it backwards. It keeps a command that prints its environment, or a server
// that echoes its request, from putting a credential into a conversation.
//
// # What it costs
//
// One pass over the text, which looks at every eighth byte or so (the shift table
// of Wu and Manber over the first bytes of all forms of all secrets), whatever
// their number. Where there are no secrets there is no Set and no pass.
package redact

import (
	"bytes"
	"encoding/binary"
	"slices"

	"github.com/sidecall/sidecall/internal/tool"
)

const (
	// maxWindow is how many bytes of a form the scan looks at first.
	maxWindow = 8
	// shiftBits is the size of the shift table, as a power of two.
	shiftBits = 13
)

// Set finds secrets. It is immutable and safe for concurrent use; a nil Set finds
// nothing.
type Set struct {
	// window is how many bytes from its start tell that a form may be here: at
	// most maxWindow, and no more than the shortest form has.
	window int
	// shift is by how much the window may move on, by its last two bytes, hashed.
	shift [1 << shiftBits]uint8
	// forms by their first bytes, the longest first.
	forms map[uint64][]form
}

// New returns what finds the texts, each in all its forms; nil when there is none
// that is long enough.
func New(secrets ...string) *Set {
	forms := formsOf(secrets)
	if len(forms) == 0 {
		return nil
	}
	s := &Set{window: maxWindow, forms: make(map[uint64][]form, len(forms))}
	for _, f := range forms {
		s.window = min(s.window, len(f.text))
	}
	for i := range s.shift {
		s.shift[i] = uint8(s.window - 1)
	}
	for _, f := range forms {
		for at := 1; at < s.window; at++ {
			slot := &s.shift[pair(f.text[at-1], f.text[at])]
			*slot = min(*slot, uint8(s.window-1-at))
		}
		key := load(f.text[:s.window])
		s.forms[key] = append(s.forms[key], f)
	}
	for _, same := range s.forms {
		slices.SortFunc(same, func(a, b form) int { return len(b.text) - len(a.text) })
	}
	return s
}

// find returns where in text secrets stand, in order; what overlaps is one.
func (s *Set) find(text []byte) (found []span) {
	for i := s.window; i <= len(text); {
		if skip := s.shift[pair(text[i-2], text[i-1])]; skip > 0 {
			i += int(skip)
			continue
		}
		at := i - s.window
		for _, f := range s.forms[load(text[at:i])] {
			if bytes.HasPrefix(text[at:], f.text) {
				found = join(found, f.grown(text, at))
				break // the longest of those that begin here
			}
		}
		i++
	}
	return found
}

// join adds a span to those before it.
func join(found []span, next span) []span {
	if n := len(found); n > 0 && next.from < found[n-1].to {
		found[n-1].from = min(found[n-1].from, next.from)
		found[n-1].to = max(found[n-1].to, next.to)
		return found
	}
	return append(found, next)
}

// Found reports that a secret stands in text.
func (s *Set) Found(text []byte) bool { return s != nil && len(s.find(text)) > 0 }

// Bytes returns text with (redacted) in the place of each secret; text itself when
// there is none in it.
func (s *Set) Bytes(text []byte) []byte {
	if s == nil {
		return text
	}
	found := s.find(text)
	if len(found) == 0 {
		return text
	}
	out := make([]byte, 0, len(text)+len(found)*len(tool.ReceivedRedacted))
	at := 0
	for _, f := range found {
		out = append(append(out, text[at:f.from]...), tool.ReceivedRedacted...)
		at = f.to
	}
	return append(out, text[at:]...)
}

// Replace is Bytes for a string.
func (s *Set) Replace(text string) string {
	if s == nil {
		return text
	}
	b := []byte(text)
	if clean := s.Bytes(b); len(clean) != len(b) || !bytes.Equal(clean, b) {
		return string(clean)
	}
	return text
}

// Mask returns data that is no text, with stars over each secret: what stands
// behind it stays where it was. It returns data itself when there is none in it.
func (s *Set) Mask(data []byte) []byte {
	if s == nil {
		return data
	}
	found := s.find(data)
	if len(found) == 0 {
		return data
	}
	out := bytes.Clone(data)
	for _, f := range found {
		for i := f.from; i < f.to; i++ {
			out[i] = '*'
		}
	}
	return out
}

// pair hashes two bytes.
func pair(a, b byte) uint32 {
	return (uint32(a) | uint32(b)<<8) * 0x9E3779B1 >> (32 - shiftBits)
}

// load is up to eight bytes as a number.
func load(b []byte) (key uint64) {
	if len(b) == maxWindow {
		return binary.LittleEndian.Uint64(b)
	}
	for i, c := range b {
		key |= uint64(c) << (8 * i)
	}
	return key
}

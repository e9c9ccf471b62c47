package schema

import (
	"encoding/json"
	"hash/maphash"
	"maps"
	"slices"
)

// Bounds on the work of SameCall: a call whose id stands for another one must not
// cost more for it than one that runs.
const (
	maxReadings     = 1 << 10
	maxReadingBytes = 4 << 20 // of canonical JSON, for all readings together
)

// SameCall reports whether a fingerprint is that of the tool's call with args, as
// they may have been read by a schema that is not known any more: with and without
// what it had left out for being null, and with the values that it may have taken
// for what they spell (see Schema.Check). What a schema says it says of a place for
// all items of an array, so a reading treats those alike. False may also mean that
// there are more readings than are tried.
func SameCall(toolName string, args map[string]any, fingerprint [32]byte) bool {
	r := &readings{tool: toolName, want: fingerprint, doubts: make(map[doubt]bool)}
	r.find(args, 0)
	plain, err := Canonical(args)
	if err != nil || Fingerprint(toolName, plain) == fingerprint {
		return err == nil
	}
	most := max(1, min(maxReadings, maxReadingBytes/len(plain)))
	// The narrower what a doubt is about, the more readings there are.
	for _, about := range [...]func(doubt) doubt{
		func(d doubt) doubt { return d },
		func(d doubt) doubt { return doubt{kind: d.kind} },
		func(doubt) doubt { return doubt{} },
	} {
		r.about = about
		if n := len(r.distinct()); n < 31 && 1<<n <= most {
			return r.tryAll(args)
		}
	}
	return false
}

// doubt is what may have been read in two ways: a kind of value, at a place. Places
// are told apart by hashes: their names, one in the other, may be longer than the
// arguments by far.
type doubt struct {
	place uint64
	kind  way
}

type way uint8

const (
	noDoubt     way = iota
	nullMember      // left out, perhaps
	numberText      // "5", for 5
	booleanText     // "true"
	numeral         // 5, for "5"
)

// wayOf says in what other way a value may have been read.
func wayOf(v any) way {
	switch v := v.(type) {
	case nil:
		return nullMember
	case json.Number:
		return numeral
	case string:
		if v == "true" || v == "false" {
			return booleanText
		}
		if isNumber(v) {
			return numberText
		}
	}
	return noDoubt
}

// Places in the arguments; 0 is no place.
var places = maphash.MakeSeed()

func (*readings) member(of uint64, name string) uint64 {
	return maphash.Comparable(places, place{of, name})
}

func (*readings) items(of uint64) uint64 { return maphash.Comparable(places, of) }

type place struct {
	of   uint64
	name string
}

// readings looks for the reading that has a fingerprint.
type readings struct {
	tool   string
	want   [32]byte
	doubts map[doubt]bool
	about  func(doubt) doubt
	buffer []byte
}

// find collects the doubts in a value.
func (r *readings) find(v any, place uint64) {
	switch v := v.(type) {
	case map[string]any:
		for name, member := range v {
			at := r.member(place, name)
			r.note(member, at)
			r.find(member, at)
		}
	case []any:
		for _, item := range v {
			if item != nil { // is left out of nothing
				r.note(item, r.items(place))
			}
			r.find(item, r.items(place))
		}
	}
}

func (r *readings) note(v any, place uint64) {
	kind := wayOf(v)
	if kind == noDoubt {
		return
	}
	if len(r.doubts) >= maxReadings { // these are never tried apart
		place = 0
	}
	r.doubts[doubt{place, kind}] = true
}

// distinct are the doubts that readings differ in.
func (r *readings) distinct() []doubt {
	var found []doubt
	for d := range r.doubts {
		if d = r.about(d); !slices.Contains(found, d) {
			found = append(found, d)
		}
	}
	return found
}

// tryAll tries each combination.
func (r *readings) tryAll(args map[string]any) bool {
	doubts := r.distinct()
	for chosen := 1; chosen < 1<<len(doubts); chosen++ {
		otherwise := make(map[doubt]bool, len(doubts))
		for i, d := range doubts {
			otherwise[d] = chosen&(1<<i) != 0
		}
		read, _ := r.read(args, 0, otherwise)
		var err error
		if r.buffer, err = AppendCanonical(r.buffer[:0], read); err == nil && Fingerprint(r.tool, r.buffer) == r.want {
			return true
		}
	}
	return false
}

// read is a value with what is to be read otherwise; false when that is to be left
// out.
func (r *readings) read(v any, place uint64, otherwise map[doubt]bool) (any, bool) {
	switch v := v.(type) {
	case map[string]any:
		out := maps.Clone(v)
		for name, member := range v {
			if read, kept := r.read(member, r.member(place, name), otherwise); kept {
				out[name] = read
			} else {
				delete(out, name)
			}
		}
		return out, true
	case []any:
		out := slices.Clone(v)
		for i, item := range v {
			if item != nil {
				out[i], _ = r.read(item, r.items(place), otherwise)
			}
		}
		return out, true
	}
	kind := wayOf(v)
	if kind == noDoubt || !otherwise[r.about(doubt{place, kind})] {
		return v, true
	}
	switch kind {
	case nullMember:
		return nil, false
	case numberText:
		return json.Number(v.(string)), true
	case booleanText:
		return v == "true", true
	case numeral:
		return v.(json.Number).String(), true
	case noDoubt: // answered above
	}
	return v, true
}

package guard

// Decode reads an entry. The error wraps ErrVersion or ErrCorrupt.
func Decode(raw []byte) (Entry, error) {
	var e Entry
	name, err := e.decode(raw)
	if err != nil {
		return Entry{}, err
	}
	e.Tool = string(name)
	return e, nil
}

// Len is the number of entries that can be read.
func (l Log) Len() int { return len(l.entries()) }

// Thresholds are the limits with the defaults put in; the zero value of a nil Guard.
func (g *Guard) Thresholds() Thresholds {
	if g == nil {
		return Thresholds{}
	}
	return g.limits
}

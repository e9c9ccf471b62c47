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

package redact

// Found reports that a secret stands in text: the fuzz test has to tell one that is
// spelt like what is put in its place.
func (s *Set) Found(text []byte) bool { return s != nil && len(s.find(text)) > 0 }

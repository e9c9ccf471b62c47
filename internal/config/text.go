package config

import "strings"

// Text is a string of the file that may hold references: ${env:NAME} is the
// environment variable, ${file:/path} the content of the file without its last
// line end, and $${ stands for ${ itself.
type Text struct{ p *resolved }

// Path is a Text that names a file or a directory. One that is relative is seen from the
// directory of the config file, wherever the sidecar is started.
type Path struct{ Text }

// Secret is a Text that never shows: it prints as (secret), and as JSON it
// shows the references in it, or (secret) when there is none.
type Secret struct{ p *sealed }

// sealed keeps a secret from fmt, which calls no methods of what it finds in
// unexported fields, and which looks through one pointer but not through two.
type sealed struct{ r *resolved }

// resolved is a string whose references have been looked up.
type resolved struct {
	value  string
	source string // as written
	refs   []Reference
}

// hidden is what shows of a Secret.
const hidden = "(secret)"

// NewText returns a Text without references.
func NewText(value string) Text { return Text{&resolved{value: value, source: value}} }

// NewSecret returns a Secret without references.
func NewSecret(value string) Secret { return seal(&resolved{value: value}) }

func seal(r *resolved) Secret {
	if r == nil {
		return Secret{}
	}
	return Secret{&sealed{r}}
}

func (r *resolved) reveal() string {
	if r == nil {
		return ""
	}
	return r.value
}

// Reveal returns the text with its references resolved.
func (t Text) Reveal() string { return t.p.reveal() }

// String returns the text as it was written, references unresolved.
func (t Text) String() string {
	if t.p == nil {
		return ""
	}
	return t.p.source
}

// MarshalText is String.
func (t Text) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// Reveal returns the secret itself.
func (s Secret) Reveal() string {
	if s.p == nil {
		return ""
	}
	return s.p.r.reveal()
}

// String returns (secret), or nothing for an empty one.
func (s Secret) String() string {
	if s.Reveal() == "" {
		return ""
	}
	return hidden
}

// GoString is String, for %#v.
func (s Secret) GoString() string { return s.String() }

// MarshalText returns the references in the secret, without the text around
// them; (secret) when there is none, nothing for an empty one.
func (s Secret) MarshalText() ([]byte, error) {
	if s.p == nil || len(s.p.r.refs) == 0 {
		return []byte(s.String()), nil
	}
	var refs []byte
	for _, ref := range s.p.r.refs {
		refs = append(refs, ref.Name...)
	}
	return refs, nil
}

// Reference is a reference in a text, and what it stands for.
type Reference struct {
	// Name is the reference as written: ${env:NAME} or ${file:/path}.
	Name  string
	Value string
}

// FromFile reports a reference to a file.
func (r Reference) FromFile() bool { return strings.HasPrefix(r.Name, "${file:") }

func (r *resolved) references() []Reference {
	if r == nil {
		return nil
	}
	return r.refs
}

// References returns what the text refers to.
func (t Text) References() []Reference { return t.p.references() }

// References returns what the secret refers to.
func (s Secret) References() []Reference {
	if s.p == nil {
		return nil
	}
	return s.p.r.references()
}

// Revealer is a Text or a Secret.
type Revealer interface{ Reveal() string }

// RevealList resolves every item.
func RevealList[T Revealer](list []T) []string {
	out := make([]string, len(list))
	for i, item := range list {
		out[i] = item.Reveal()
	}
	return out
}

// RevealMap resolves every value.
func RevealMap[T Revealer](m map[string]T) map[string]string {
	out := make(map[string]string, len(m))
	for key, value := range m {
		out[key] = value.Reveal()
	}
	return out
}

// origin says where a wrong value came from, for values that are not shown.
func (r *resolved) origin() string {
	if len(r.refs) == 0 {
		return ""
	}
	names := make([]string, len(r.refs))
	for i, ref := range r.refs {
		names[i] = ref.Name
	}
	return " (the value comes from " + strings.Join(names, ", ") + ")"
}

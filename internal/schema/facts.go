package schema

import "slices"

// Properties lists, sorted, the properties of the arguments that the schema
// names at its top; those that it takes from elsewhere ($ref, allOf) are not
// among them.
func (s *Schema) Properties() []string {
	if s.Prepare() != nil {
		return nil
	}
	return sortedNames(s.root().Properties)
}

// Required lists those that the top of the schema says must be there, in its
// order. The caller may change the list.
func (s *Schema) Required() []string {
	if s.Prepare() != nil {
		return nil
	}
	return slices.Clone(s.root().Required)
}

// Secret reports whether the value that path leads to, from the arguments down,
// is never shown: whether any name on the way is, or nearly is, that of a
// property that is sensitive (Options.Sensitive, writeOnly, format: password).
// Of a nil schema, and of one that cannot be compiled, everything is.
func (s *Schema) Secret(path ...string) bool {
	return s.sensitive().covers(path)
}

// SecretTexts lists what in args is never shown, each scalar as text, so that
// it can be looked for elsewhere. Empty strings and nulls are not listed; the
// order is no particular one.
func (s *Schema) SecretTexts(args map[string]any) []string {
	secrets := s.sensitive()
	if !secrets.any() {
		return nil
	}
	return secrets.texts(args, secrets.all, nil)
}

// Redacted is args with tool.ReceivedRedacted in the place of each value that is
// never shown, for what is kept of a call or told of it. Where there is no secret it
// is args itself; args is never changed. Of a nil schema, and of one that cannot be
// compiled, every value is one.
func (s *Schema) Redacted(args map[string]any) map[string]any {
	if !s.HasSecret(args) {
		return args
	}
	return s.sensitive().redacted(args).(map[string]any)
}

// HasSecret reports whether some value in args is never shown.
func (s *Schema) HasSecret(args map[string]any) bool {
	secrets := s.sensitive()
	return args != nil && (secrets.all || secrets.within(args))
}

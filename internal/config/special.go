package config

import (
	"strings"

	"go.yaml.in/yaml/v4"
)

// decode resolves the references of a Text.
func (t *Text) decode(d *decoder, f *field, s spot) {
	if !isString(s.node) {
		d.found.add(s.at(), "expected %s, found %s%s", f.expected(stringScalar), describe(s.node), advice(stringScalar, f, s.node))
		return
	}
	found := ", found " + quote(s.node.Value)
	if strings.Contains(s.node.Value, "@") {
		found = "" // a URL with a password in it, perhaps
	}
	t.p = d.resolve(f, s, found)
}

// decode resolves the references of a Path, and where it is seen from.
func (p *Path) decode(d *decoder, f *field, s spot) {
	p.Text.decode(d, f, s)
	if p.Reveal() != "" {
		seen := *p.p
		seen.value = from(d.dir, seen.value)
		p.p = &seen
	}
}

// decode resolves the references of a Secret. Its messages never show it.
func (t *Secret) decode(d *decoder, f *field, s spot) {
	if !isString(s.node) {
		d.found.add(s.at(), "expected a string, found %s%s", describeKind(s.node), advice(stringScalar, f, s.node))
		return
	}
	*t = seal(d.resolve(f, s, ""))
}

// resolve returns nil for the empty string and for a problem. found ends the
// message about a value that breaks the format.
func (d *decoder) resolve(f *field, s spot, found string) *resolved {
	if s.node.Value == "" && !f.required && f.format == nil {
		return nil
	}
	r, err := expandRefs(s.node.Value, d.dir, d.env)
	if err != nil {
		d.found.find(RuleReference, s.at(), "%s", err.Error())
		return nil
	}
	for _, ref := range r.refs {
		d.found.given = append(d.found.given, given{s.at(), ref.Name, NewSecret(ref.Value)})
	}
	if r.value == "" && f.required {
		d.found.add(s.at(), "expected a string that is not empty%s", r.origin())
		return nil
	}
	if f.format == nil {
		return r
	}
	if bad := f.format.wrong(r.value); bad != "" {
		d.found.add(s.at(), "%s%s%s", bad, found, r.origin())
		return nil
	}
	return r
}

func (j *JSON) decode(d *decoder, _ *field, s spot) {
	if s.node.Kind != yaml.MappingNode {
		d.found.add(s.at(), "expected a JSON Schema as a mapping, found %s", describe(s.node))
		return
	}
	*j = d.json(nil, s)
}

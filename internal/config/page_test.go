package config

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// pageIntro begins the page.
const pageIntro = `# The config file

Every key, from the same tags that the decoder reads: this page is generated
(` + "`go test ./internal/config -update`" + `), and a test compares the two. So is
[schema.json](../internal/config/schema.json), for editors. ` + "`sidecall check FILE`" + ` says what is
wrong with a file, each with line and column.

A duration has a unit (` + "`250ms`, `30s`, `1m30s`" + `), a size may have one (` + "`4MiB`" + `). Values
marked *ref* may hold ` + "`${env:NAME}`" + ` or ` + "`${file:/path}`" + `, *secret* ones too, and are never
shown. NAME stands for a name of your own, [] for each item of a list. A relative path is seen
from the directory of the file, wherever the sidecar is started, or from ` + "`SIDECALL_DIR`" + `
where that is set: for a file in a place that is not to be written to. What is marked
*reserved* is read and checked, but this version does not act on it.
`

// configPage returns the page that describes every key of the config file, as
// Markdown. docs/config.md holds the same bytes.
func configPage() []byte {
	r := &page{places: map[reflect.Type]string{}, coming: map[reflect.Type]string{}}
	r.out.WriteString(pageIntro)
	r.section(reflect.TypeFor[Config](), "")
	r.profiles()
	return r.out.Bytes()
}

// page is docs/config.md while it is written.
type page struct {
	out    bytes.Buffer
	places map[reflect.Type]string // where each struct is described
	coming map[reflect.Type]string // where one is going to be, below the section at work
}

// section describes a struct at the place where it is met first, and what is
// below it.
func (r *page) section(t reflect.Type, place string) {
	r.places[t] = place
	if place == "" {
		r.out.WriteString("\n## Top level\n")
	} else {
		fmt.Fprintf(&r.out, "\n## %s\n", place)
	}
	for _, group := range shapeOf(t).groups {
		fmt.Fprintf(&r.out, "\nExactly one of %s.\n", alternatives(group))
	}
	own, shared := r.fieldsOf(t)
	var below []nested
	if len(own) > 0 {
		r.out.WriteString("\n| key | value | default | |\n|---|---|---|---|\n")
	}
	for _, f := range own {
		r.row(f, place)
		if s := elem(f.typ); hasKeys(s) {
			below = append(below, nested{s, join(place, f.key, f.typ)})
			if _, known := r.coming[s]; !known {
				r.coming[s] = join(place, f.key, f.typ)
			}
		}
	}
	for _, t := range shared {
		name, known := r.places[t]
		if !known {
			name = strings.Trim(capital.ReplaceAllString(t.Name(), " $0"), " ")
			below = append(below, nested{t, name})
		}
		fmt.Fprintf(&r.out, "\nBeside these: [%s](#%s).\n", name, anchor(name))
	}
	if len(own) == 0 && len(shared) == 0 {
		r.out.WriteString("\nNo keys.\n")
	}
	for _, n := range below {
		if _, known := r.places[n.t]; !known {
			r.section(n.t, n.place)
		}
	}
}

// nested is a struct below another one.
type nested struct {
	t     reflect.Type
	place string
}

// fieldsOf returns the fields of a struct that are its own, and the structs whose
// keys it has too.
func (r *page) fieldsOf(t reflect.Type) (own []*field, shared []reflect.Type) {
	for _, f := range shapeOf(t).fields {
		if len(f.index) == 1 {
			own = append(own, f)
			continue
		}
		embedded := t.Field(f.index[0]).Type
		if !slices.Contains(shared, embedded) {
			shared = append(shared, embedded)
		}
	}
	return own, shared
}

func (r *page) row(f *field, place string) {
	fmt.Fprintf(&r.out, "| `%s` | %s | %s | %s |\n", f.key, r.value(f, place), f.defaultWords(), cell(f.doc))
}

// defaultWords say what holds without the key. Where that depends on others the
// description says it.
func (f *field) defaultWords() string {
	switch {
	case f.required:
		return "**required**"
	case f.def != "":
		return code(f.def)
	case f.typ.Kind() == reflect.Bool:
		return code("false")
	case f.min == "0" || f.min == "0s":
		return code(f.min)
	default:
		return ""
	}
}

// value says what may stand at a key.
func (r *page) value(f *field, place string) string {
	s := elem(f.typ)
	var words string
	if hasKeys(s) {
		at := cmp.Or(r.places[s], r.coming[s], join(place, f.key, f.typ))
		words = fmt.Sprintf("[%s](#%s)", at, anchor(at))
		if alone := shapeOf(s).form("text"); alone != nil {
			words = alone.words(alone.typ) + ", or a mapping: " + words
		}
	} else {
		words = f.words(s)
	}
	switch kind := f.typ.Kind(); {
	case isLeaf(f.typ):
	case kind == reflect.Slice:
		words = "list: " + words
	case kind == reflect.Map:
		words = "map: " + words
	}
	if f.with != nil {
		words += "; only beside " + strings.ReplaceAll(alternatives(f.with), ", ", " or ")
	}
	return words
}

// hasKeys reports whether the type has a section of its own.
func hasKeys(t reflect.Type) bool {
	shape := shapeOf(t)
	return shape != nil && (shape.keys != nil || shape.forms == nil)
}

// words say what a single value is.
func (f *field) words(t reflect.Type) string {
	var words string
	switch t {
	case reflect.TypeFor[time.Duration]():
		words = "duration"
	case reflect.TypeFor[Bytes]():
		words = "size"
	case reflect.TypeFor[JSON]():
		words = "a JSON Schema, as YAML"
	case reflect.TypeFor[Secret]():
		words = f.text() + " *secret*"
	case reflect.TypeFor[Text](), reflect.TypeFor[Path]():
		words = f.text() + " *ref*"
	default:
		if shape := shapeOf(t); shape != nil {
			words = shape.formWords()
		} else if sc := scalars[t]; sc != nil && !sc.text {
			words = sc.expect
		} else {
			words = f.text()
		}
	}
	if f.min != "" {
		words += fmt.Sprintf(", %s to %s", f.min, f.max)
	}
	return words
}

// text says what a string may be.
func (f *field) text() string {
	switch {
	case f.enum != nil:
		return alternatives(f.enum)
	case f.format != nil:
		return cell(f.format.expect)
	default:
		return "a string"
	}
}

// profiles lists those that exist without being declared.
func (r *page) profiles() {
	r.out.WriteString("\n## Profiles without being declared\n\n| profile | max_tool_calls | max_tokens | tools |\n|---|---|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(builtinProfiles)) {
		p := builtinProfiles[name]
		fmt.Fprintf(&r.out, "| `%s` | %d | %d | %s |\n", name, p.MaxToolCalls, p.MaxTokens, alternatives(p.Tools))
	}
}

// join is the place of what stands at a key.
func join(place, key string, t reflect.Type) string {
	if place != "" {
		key = place + "." + key
	}
	switch t.Kind() {
	case reflect.Map:
		return key + ".NAME"
	case reflect.Slice:
		return key + "[]"
	default:
		return key
	}
}

// anchor is where a page that is shown has a heading.
func anchor(heading string) string {
	keep := func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '_' || r == '-' || 'a' <= r && r <= 'z' || '0' <= r && r <= '9':
			return r
		}
		return -1
	}
	return strings.Map(keep, strings.ToLower(heading))
}

// capital is where a word begins in the name of a type.
var capital = regexp.MustCompile(`[A-Z][a-z]+`)

func code(text string) string { return "`" + text + "`" }

func alternatives(names []string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = code(name)
	}
	return strings.Join(quoted, ", ")
}

// cell is text that stays in its cell of a table, and is no markup.
func cell(text string) string {
	return strings.NewReplacer("|", `\|`, "*", `\*`, "<", `\<`, "[", `\[`).Replace(text)
}

// TestPage keeps docs/config.md equal to the types it is made from.
func TestPage(t *testing.T) {
	golden(t, "../../docs/config.md", string(configPage()))
}

// Every key is on the page with its default and its description, and every link
// leads to a heading.
func TestPageHasEveryKey(t *testing.T) {
	page := string(configPage())
	for of, s := range allShapes() {
		for _, f := range s.fields {
			found := false
			for line := range strings.Lines(page) {
				found = found || strings.HasPrefix(line, "| `"+f.key+"` | ") &&
					strings.Contains(line, cell(f.doc)+" |") && strings.Contains(line, "| "+f.defaultWords()+" |")
			}
			if !found {
				t.Errorf("%s.%s is not on the page", of.Name(), f.key)
			}
		}
	}
	headings := map[string]bool{}
	for line := range strings.Lines(page) {
		if heading, ok := strings.CutPrefix(line, "## "); ok {
			if at := anchor(strings.TrimSpace(heading)); headings[at] {
				t.Errorf("two headings at #%s", at)
			} else {
				headings[at] = true
			}
		}
	}
	for _, part := range strings.Split(page, "](#")[1:] {
		if at, _, _ := strings.Cut(part, ")"); !headings[at] {
			t.Errorf("no heading at #%s", at)
		}
	}
	if len(headings) < 20 {
		t.Errorf("%d headings", len(headings))
	}
}

// allShapes are those of every struct type that Config holds.
func allShapes() map[reflect.Type]*shape {
	all := map[reflect.Type]*shape{}
	var add func(t reflect.Type)
	add = func(t reflect.Type) {
		t = elem(t)
		if s := shapeOf(t); s != nil && all[t] == nil {
			all[t] = s
			for _, f := range s.fields {
				add(f.typ)
			}
		}
	}
	add(reflect.TypeFor[Config]())
	return all
}

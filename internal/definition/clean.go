package definition

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/sidecall/sidecall/internal/output"
	"github.com/sidecall/sidecall/internal/tool"
)

// What is shown of a definition at the most. Descriptions of real servers have up to
// some 9,000 characters.
const (
	// MaxDescription bounds the description of a tool, in characters.
	MaxDescription = 10_000
	// MaxText bounds each text in a schema: a description, an example, in characters.
	MaxText = 2_000
	// maxTitle bounds a title, and any other annotation, in characters.
	maxTitle = 200
	// MaxTool bounds one tool as a whole, in bytes. From a larger one the prose in
	// its schemas goes first; then it is left out.
	MaxTool = 256 << 10
	// MaxBackend bounds all tools of one backend together, in bytes; the rest is left
	// out.
	MaxBackend = 32 << 20
)

// Cleaner makes definitions fit to be shown.
type Cleaner struct {
	// Secrets are taken out; nil when there are none.
	Secrets output.Secrets

	total int
}

// Clean returns a definition as it is shown and used. The error says why it cannot be.
func (c *Cleaner) Clean(d tool.Discovered) (tool.Discovered, error) {
	d.Description = c.text(d.Description, MaxDescription)
	annotations := make(map[string]string, len(d.Annotations))
	for name, value := range d.Annotations {
		annotations[name] = strings.Join(strings.Fields(c.text(value, maxTitle)), " ")
	}
	if d.Annotations != nil {
		d.Annotations = annotations
	}
	var err error
	if d.InputSchema, err = c.schema(d.InputSchema, false); err != nil {
		return d, fmt.Errorf("its input schema %w", err)
	}
	if d.OutputSchema, err = c.schema(d.OutputSchema, false); err != nil {
		return d, fmt.Errorf("its output schema %w", err)
	}
	if size(&d) > MaxTool {
		d.InputSchema, _ = c.schema(d.InputSchema, true) // it could be read before
		d.OutputSchema, _ = c.schema(d.OutputSchema, true)
	}
	if size(&d) > MaxTool {
		return d, fmt.Errorf("its definition has more than %d bytes", MaxTool)
	}
	if c.total += size(&d); c.total > MaxBackend {
		c.total -= size(&d)
		return d, fmt.Errorf("the tools of the backend have more than %d bytes together", MaxBackend)
	}
	return d, nil
}

func size(d *tool.Discovered) int {
	return len(d.Name) + len(d.Description) + len(d.InputSchema) + len(d.OutputSchema)
}

// text is a text as a model may see it.
func (c *Cleaner) text(text string, most int) string {
	clean := output.Clean([]byte(text[:min(len(text), MaxTool)]))
	if c.Secrets != nil {
		clean = string(c.Secrets.Bytes([]byte(clean)))
	}
	return tool.Shorten(clean, most)
}

// schema is a schema as a model may see it. What it demands stays, spelt so that a
// reader can see it: names, values and patterns are cleaned too. withoutProse takes
// out what it only explains.
func (c *Cleaner) schema(schema json.RawMessage, withoutProse bool) (json.RawMessage, error) {
	if len(schema) == 0 {
		return schema, nil
	}
	clean, ok := output.CleanJSON(schema)
	if !ok {
		return nil, fmt.Errorf("is not JSON")
	}
	clean = output.WithoutSecrets(clean, c.Secrets)
	if len(clean) <= MaxText && !withoutProse {
		return clean, nil
	}
	var out bytes.Buffer
	p := proser{
		in:      jsontext.NewDecoder(bytes.NewReader(clean), jsontext.AllowDuplicateNames(true)),
		out:     jsontext.NewEncoder(&out, jsontext.AllowDuplicateNames(true)),
		without: withoutProse,
	}
	if err := p.value(""); err != nil {
		return nil, fmt.Errorf("cannot be read: %w", err)
	}
	return bytes.TrimSpace(out.Bytes()), nil
}

// prose are the keywords that explain and do not demand.
var prose = map[string]bool{
	"description": true, "title": true, "$comment": true, "markdownDescription": true,
	"examples": true, "example": true, "default": true,
}

// proser copies a schema, with its prose capped or left out.
type proser struct {
	in      *jsontext.Decoder
	out     *jsontext.Encoder
	without bool
}

// value copies the next value, which stands under a key.
func (p *proser) value(key string) error {
	switch p.in.PeekKind() {
	case '{':
		return p.object()
	case '[':
		return p.list(key)
	case '"':
		text, err := p.in.ReadToken()
		if err != nil {
			return err
		}
		if s := text.String(); prose[key] && len(s) > MaxText {
			return p.out.WriteToken(jsontext.String(tool.Shorten(s, MaxText)))
		}
		return p.out.WriteToken(text)
	default:
		value, err := p.in.ReadValue()
		if err != nil {
			return err
		}
		return p.out.WriteValue(value)
	}
}

func (p *proser) list(key string) error {
	if err := p.token(); err != nil {
		return err
	}
	for p.in.PeekKind() != ']' {
		if err := p.value(key); err != nil {
			return err
		}
	}
	return p.token()
}

func (p *proser) object() error {
	if err := p.token(); err != nil {
		return err
	}
	for p.in.PeekKind() != '}' {
		name, err := p.in.ReadToken()
		if err != nil {
			return err
		}
		key := name.String()
		// A property of that name has a schema, which is no text.
		if kind := p.in.PeekKind(); p.without && prose[key] && kind != '{' && kind != 't' && kind != 'f' {
			if err := p.in.SkipValue(); err != nil {
				return err
			}
			continue
		}
		if err := p.out.WriteToken(jsontext.String(key)); err != nil {
			return err
		}
		if err := p.value(key); err != nil {
			return err
		}
	}
	return p.token()
}

// token copies a bracket.
func (p *proser) token() error {
	bracket, err := p.in.ReadToken()
	if err != nil {
		return err
	}
	return p.out.WriteToken(bracket)
}

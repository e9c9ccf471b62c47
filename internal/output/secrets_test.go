package output_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/sidecall/sidecall/internal/output"
	"github.com/sidecall/sidecall/internal/redact"
	"github.com/sidecall/sidecall/internal/tool"
)

const hidden = `t0ken/"odd" \n 5ecret`

// spelt are the ways in which a result may give a secret away.
func spelt(t *testing.T) map[string]string {
	t.Helper()
	return map[string]string{
		"itself": hidden, "URL": url.QueryEscape(hidden), "base64": base64.StdEncoding.EncodeToString([]byte(hidden)),
		"base64 within": base64.URLEncoding.EncodeToString([]byte("user:" + hidden + "@x")),
		"broken up":     hidden[:4] + "\u200b" + hidden[4:],
	}
}

// Secrets are taken out of everything that a result shows, carries or keeps.
func TestAResultHoldsNoSecrets(t *testing.T) {
	for name, secret := range spelt(t) {
		quoted, err := json.Marshal(map[string]any{"before": 1, "k": secret, "list": []string{"x", "Bearer " + secret}, secret: true})
		if err != nil {
			t.Fatal(err)
		}
		for kind, in := range map[string]output.Input{
			"text":            {Reply: tool.Reply{Text: []byte("say " + secret + " aloud")}},
			"JSON":            {Reply: tool.Reply{Text: quoted, JSON: true}},
			"structured":      {Reply: tool.Reply{Text: []byte("see there"), Structured: quoted}},
			"only structured": {Reply: tool.Reply{Structured: quoted}},
			"a block":         {Reply: tool.Reply{Blocks: []tool.Block{{Type: "resource", URI: "x:" + secret, Name: secret, Text: secret}}}},
			"data":            {Reply: tool.Reply{Blocks: []tool.Block{{Type: "image", MIMEType: "image/png", Data: []byte("\x00" + secret)}}}},
			"cut text":        {Limit: 700, Keep: true, Reply: tool.Reply{Text: []byte(strings.Repeat("word ", 400) + secret + strings.Repeat(" word", 400))}},
			"cut JSON":        {Limit: 700, Keep: true, Reply: tool.Reply{JSON: true, Text: fmt.Appendf(nil, `{"a":%s,"b":%q}`, quoted, strings.Repeat("b", 2000))}},
			"read in part":    {Limit: 700, Keep: true, Reply: tool.Reply{Cut: true, JSON: true, Text: fmt.Appendf(nil, `{"a":%s,"b":%q,"c":[1,`, quoted, strings.Repeat("b", 2000))}},
			"too large":       {CarryLimit: 3 * 1024, Keep: true, Reply: tool.Reply{Text: []byte("x"), Structured: fmt.Appendf(nil, `{"a":%s,"b":%q}`, quoted, strings.Repeat("b", 4000))}},
		} {
			for _, in.Untrusted = range []bool{false, true} {
				in.Secrets = redact.New(hidden)
				s := output.Shape(in)
				said := fmt.Sprintf("%s\n%s\n%s", s.Content, s.StructuredJSON, s.Kept)
				for _, b := range s.Blocks {
					said += fmt.Sprintf("\n%s\n%s\n%s\n%s", b.Name, b.URI, b.Text, b.Data)
				}
				set := redact.New(hidden)
				if set.Replace(said) != said {
					t.Errorf("%s, %s: a secret is in %s", name, kind, said)
				}
				if s.StructuredJSON != "" && !json.Valid([]byte(s.StructuredJSON)) {
					t.Errorf("%s, %s: no JSON any more: %s", name, kind, s.StructuredJSON)
				}
				if kind == "JSON" && s.StructuredJSON != `{"before":1,"k":"(redacted)","list":["x","Bearer (redacted)"],"(redacted)":true}` && !strings.HasPrefix(name, "base64") {
					t.Errorf("%s: %s", name, s.StructuredJSON)
				}
			}
		}
	}
}

// JSON stays JSON, also where a secret is a number, or what looks like one is an
// escape and the letters behind it.
func TestJSONWithoutSecretsIsJSON(t *testing.T) {
	for text, want := range map[string]string{
		`{"pin":12345678,"n":1234567, "s":"12345678"}`: `{"pin":"(redacted)","n":1234567, "s":"(redacted)"}`,
		`["\nothing12", "nothing12"]`:                  `["\nothing12", "(redacted)"]`,
		`[-12345678.5]`:                                `["(redacted)"]`,
		`{"untouched": [1.0, "\u00e9\/", null ]}`:      `{"untouched": [1.0, "\u00e9\/", null ]}`,
	} {
		s := output.Shape(output.Input{Secrets: redact.New("12345678", "nothing12"), Reply: tool.Reply{Text: []byte(text), JSON: true}})
		if s.Content != want || s.StructuredJSON != want {
			t.Errorf("%s becomes %s and %s", text, s.Content, s.StructuredJSON)
		}
	}
}

// What a result costs with secrets to look for, and without any.
func BenchmarkShapeWithSecrets(b *testing.B) {
	var text strings.Builder
	for i := 0; text.Len() < 7000; i++ {
		fmt.Fprintf(&text, `{"id":%d,"name":"Blue widget, large","url":"https://shop.example/items/%d"},`, i, i)
	}
	reply := tool.Reply{JSON: true, Text: []byte("[" + strings.TrimSuffix(text.String(), ",") + "]")}
	for name, secrets := range map[string]output.Secrets{"none": nil, "two": redact.New("Bearer sk-live-0123456789abcdef", "sk-live-0123456789abcdef")} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(reply.Text)))
			b.ReportAllocs()
			for b.Loop() {
				output.Shape(output.Input{Reply: reply, Secrets: secrets})
			}
		})
	}
}

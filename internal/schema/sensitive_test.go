package schema_test

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sidecall/sidecall/internal/schema"
	"github.com/sidecall/sidecall/internal/tool"
	"github.com/sidecall/sidecall/test/testkit/repairs"
)

func TestSecretsAreRedacted(t *testing.T) {
	const source = `{"properties":{
		"password":{"type":"string","format":"password","minLength":40},
		"card":{"type":"object","properties":{"number":{"type":"string","writeOnly":true,"pattern":"^[0-9]+$"},"brand":{"enum":["visa","amex"]}},"additionalProperties":false},
		"token":{"type":"integer"},
		"keys":{"type":"array","items":{"$ref":"#/$defs/key"}},
		"note":{"type":"string"}},
		"additionalProperties":false,"$defs":{"key":{"type":"string","writeOnly":true}}}`
	s := mustCompile(t, source, schema.Options{Sensitive: []string{"token"}})
	for name, text := range map[string]string{
		"format: password":              `{"password":"hunter2"}`,
		"writeOnly":                     `{"card":{"number":"hunter2"}}`,
		"listed":                        `{"token":"hunter2"}`,
		"of a wrong type":               `{"token":{"value":"hunter2"}}`,
		"items of a reference":          `{"keys":["ok",{"x":"hunter2"}]}`,
		"around it":                     `{"card":[{"number":"hunter2"}]}`,
		"under a misspelt name":         `{"pasword":"hunter2"}`,
		"under another convention":      `{"PASSWORD":"hunter2"}`,
		"at the wrong place":            `{"card":{"password":"hunter2"}}`,
		"inside a string":               `{"card":"{\"number\":\"hunter2\"}"}`,
		"inside a string, cut off":      `{"card":"{\"number\":\"hunter2"}`,
		"inside what is unknown":        `{"payload":{"number":"hunter2"}}`,
		"inside an array of strangers":  `{"note":[{"token":"hunter2"}]}`,
		"as a number with a wrong type": `{"note":{"token":4111111111111111,"deep":{"number":"hunter2"}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			args, violation := s.ParseArgs(text)
			if violation != nil {
				t.Fatal(*violation)
			}
			_, _, violations := s.Check(args)
			if len(violations) == 0 {
				t.Fatal("was accepted")
			}
			text := tool.RenderError(violations[0], violations[1:])
			if strings.Contains(text, "hunter2") || strings.Contains(text, "4111111") {
				t.Error(text)
			}
			if !strings.Contains(text, tool.ReceivedRedacted) {
				t.Errorf("nothing is redacted: %s", text)
			}
		})
	}
	args, _ := s.ParseArgs(`{"note":5,"card":{"brand":"viza"}}`)
	_, _, violations := s.Check(args)
	for _, v := range violations {
		if v.Received == tool.ReceivedRedacted {
			t.Errorf("%s is no secret: %+v", v.Field, v)
		}
	}
}

func TestSecretsNeverAppearWhateverIsWrong(t *testing.T) {
	const secret = "hunter2hunter2"
	s := mustCompile(t, `{"properties":{"user":{"type":"string","minLength":2},"password":{"type":"string","minLength":8,"maxLength":20,"writeOnly":true},
		"login":{"type":"object","properties":{"pin":{"type":"string"},"realm":{"enum":["a","b"]}},"required":["pin"],"additionalProperties":false}},
		"required":["user","password"],"additionalProperties":false}`, schema.Options{Sensitive: []string{"pin"}})
	valid, _ := s.ParseArgs(`{"user":"ada","password":"` + secret + `","login":{"pin":"` + secret + `","realm":"a"}}`)
	tried := 0
	for _, m := range repairs.Mutations(valid) {
		_, _, violations := s.Check(m.Args)
		for _, v := range violations {
			tried++
			if text := tool.RenderError(v, nil); strings.Contains(strings.ToLower(text), secret) {
				t.Errorf("%s at %s: %s", m.Kind, m.Where, text)
			}
		}
	}
	if tried < 60 {
		t.Errorf("only %d violations", tried)
	}
}

func TestADefaultOfASecretIsNotShown(t *testing.T) {
	s := mustCompile(t, `{"properties":{"password":{"type":"string","writeOnly":true,"default":"changeit"}},"required":["password"]}`, schema.Options{})
	_, _, violations := s.Check(map[string]any{})
	if text := tool.RenderError(violations[0], nil); strings.Contains(text, "changeit") {
		t.Error(text)
	}
}

func TestSecret(t *testing.T) {
	s := mustCompile(t, `{"properties":{
		"password":{"type":"string","format":"password"},
		"card":{"type":"object","properties":{"number":{"type":"string","writeOnly":true},"brand":{"type":"string"}}},
		"keys":{"type":"array","items":{"$ref":"#/$defs/key"}},
		"card.code":{"type":"string"},
		"note":{"type":"string"}},
		"$defs":{"key":{"type":"string","writeOnly":true}}}`, schema.Options{Sensitive: []string{"token", "card.code"}})
	for field, want := range map[string]bool{
		"password": true, "passwrod": true, "card.number": true, "keys[2]": true, "token": true, "note.token[0].x": true, `["card.code"]`: true,
		"": false, "card": false, "card.brand": false, "note": false, "keyss.x": true, `note["a.b"]`: false,
	} {
		if got := s.Secret(schema.FieldPath(field)...); got != want {
			t.Errorf("%s: %v, want %v", field, got, want)
		}
	}
	args, _ := s.ParseArgs(`{"password":"hunter2","note":"a note","card":{"number":[4111,"x",null,""],"brand":"visa"},
		"keys":[true,"k"],"deep":[{"token":{"a":{"b":1.50}}}],"text":"{\"token\":\"t\"}"}`)
	got := s.SecretTexts(args)
	slices.Sort(got)
	if diff := cmp.Diff([]string{"1.50", "4111", "hunter2", "k", "true", "x", `{"token":"t"}`}, got); diff != "" {
		t.Error(diff)
	}
}

func TestNothingIsSecretWithoutAMark(t *testing.T) {
	s := mustCompile(t, `{"properties":{"password":{"type":"string"}}}`, schema.Options{})
	if s.Secret("password") || s.Secret() || s.SecretTexts(map[string]any{"password": "hunter2"}) != nil {
		t.Error("a secret that nobody marked")
	}
}

func TestArgumentsMarkedAsAWholeAreSecret(t *testing.T) {
	s := mustCompile(t, `{"writeOnly":true,"properties":{"a":{"type":"string"}}}`, schema.Options{})
	if !s.Secret("a") || !s.Secret() || len(s.SecretTexts(map[string]any{"a": "b", "c": "d"})) != 2 {
		t.Error("part of it is not secret")
	}
}

func TestWithoutASchemaEverythingIsSecret(t *testing.T) {
	var gone *schema.Schema
	if !gone.Secret("a") || len(gone.SecretTexts(map[string]any{"a": "b"})) != 1 || gone.Properties() != nil || gone.Required() != nil {
		t.Error("something is known of a schema that is not there")
	}
}

// farNames are n names of 64 letters of which none is like another.
func farNames(n int, seed uint64) []string {
	random := rand.New(rand.NewPCG(seed, 0))
	names := make([]string, n)
	for i := range names {
		letters := make([]byte, 64)
		for j := range letters {
			letters[j] = 'a' + byte(random.IntN(26))
		}
		names[i] = string(letters)
	}
	return names
}

// 1.4 KB of arguments took 5 s where 2,400 properties are secret, and with 70 KB nobody
// waited for the end: each name was compared with each.
func TestNamesThatAreTooMuchToCompareCountAsSecrets(t *testing.T) {
	text := `{"additionalProperties":true,"properties":{"` + strings.Join(farNames(1000, 1), `":{"writeOnly":true},"`) + `":{"writeOnly":true}}}`
	s := mustCompile(t, text, schema.Options{Closed: true})
	args := map[string]any{}
	for i, name := range farNames(20, 2) {
		if args[name] = "x"; i == 0 && (s.HasSecret(args) || s.Secret(name)) {
			t.Error("a name that is like none is a secret")
		}
	}
	if len(s.SecretTexts(args)) == 0 || !s.HasSecret(args) || !slices.Contains(slices.Collect(maps.Values(s.Redacted(args))), any(tool.ReceivedRedacted)) {
		t.Error("all was compared")
	}
	texts := map[string]any{"a": strings.Repeat("{", 1<<20)}
	if !s.HasSecret(texts) {
		t.Error("all was looked for")
	}
}

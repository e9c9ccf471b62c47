package redact_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"github.com/sidecall/sidecall/internal/redact"
)

const (
	token = "s3cr3t-0f3a9c77"
	odd   = `p@ss/w"rd+\ <é&…𝄞>?x=1`
)

func TestASecretIsFoundInEveryForm(t *testing.T) {
	set := redact.New(token, odd)
	for _, secret := range []string{token, odd} {
		quoted, err := json.Marshal(secret)
		if err != nil {
			t.Fatal(err)
		}
		for name, form := range map[string]string{
			"itself":      secret,
			"in a query":  url.QueryEscape(secret),
			"in a path":   url.PathEscape(secret),
			"lower case":  strings.ToLower(url.QueryEscape(strings.ToLower(secret))),
			"in JSON":     string(quoted[1 : len(quoted)-1]),
			"JSON of PHP": strings.ReplaceAll(strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(secret), "/", `\/`),
		} {
			if name == "lower case" && secret != strings.ToLower(secret) {
				continue
			}
			if got := set.Replace("a " + form + " b"); got != "a (redacted) b" {
				t.Errorf("%s: %q is left of %q", name, got, form)
			}
		}
	}
	if got := set.Replace(`"p@ss/w\"rd+\\ <\u00e9&\u2026\ud834\udd1e>?x=1"`); got != `"(redacted)"` {
		t.Errorf("as Python writes it: %s", got)
	}
}

// In base64 a secret looks otherwise by where it stands; nothing of it is left
// that could be decoded.
func TestASecretIsFoundInBase64(t *testing.T) {
	for _, secret := range []string{token, odd, "exactly-12bt", "thirteen-byte"} {
		set := redact.New(secret)
		for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.RawStdEncoding, base64.URLEncoding, base64.RawURLEncoding} {
			for _, before := range []string{"", "u", "us", "usr", "user:"} {
				for _, after := range []string{"", "x", "xy", "xyz", "@host"} {
					got := set.Replace("Basic " + encoding.EncodeToString([]byte(before+secret+after)) + " was it")
					if !strings.Contains(got, "(redacted)") || !strings.HasPrefix(got, "Basic ") || !strings.HasSuffix(got, " was it") {
						t.Errorf("%q + %q + %q: %s", before, secret, after, got)
					}
					for part := range strings.FieldsSeq(strings.NewReplacer("(redacted)", " ", "=", "").Replace(got)) {
						if decoded, _ := base64.RawStdEncoding.DecodeString(part); len(decoded) > 0 && bytes.Contains([]byte(secret), decoded) && len(decoded) > 2 {
							t.Errorf("%q + %q + %q: %q can be read in %s", before, secret, after, decoded, got)
						}
					}
				}
			}
		}
	}
	set := redact.New(odd)
	if got := set.Replace("q=" + url.QueryEscape(base64.StdEncoding.EncodeToString([]byte(odd))) + "&n=1"); strings.Count(got, "(redacted)") != 1 || !strings.HasSuffix(got, "&n=1") {
		t.Errorf("base64 in a URL: %s", got)
	}
}

// JSON in which a secret stands in base64 behind an escape is JSON without it too.
func TestAnEscapeBeforeBase64IsLeftWhole(t *testing.T) {
	encoded := base64.StdEncoding.EncodeToString([]byte(token))
	for _, before := range []string{`\n`, `\u003e`, `\\`, `x\t`} {
		text := `{"a":"` + before + encoded + ` b"}`
		got := redact.New(token).Replace(text)
		if !json.Valid([]byte(got)) || !strings.Contains(got, before+"(redacted)") || strings.Contains(got, encoded[2:]) {
			t.Errorf("%s becomes %s", text, got)
		}
	}
}

func TestWhatOverlapsIsOne(t *testing.T) {
	set := redact.New("abcdefgh", "efghijkl", "abcdefghXYZ")
	for text, want := range map[string]string{
		"abcdefghijkl":             "(redacted)",
		"abcdefghXYZ":              "(redacted)",
		"abcdefghabcdefgh":         "(redacted)(redacted)",
		"abcdefg":                  "abcdefg",
		"":                         "",
		"zabcdefgh":                "z(redacted)",
		"abcdefgabcdefghijklefghi": "abcdefg(redacted)efghi",
	} {
		if got := set.Replace(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

func TestWithoutSecrets(t *testing.T) {
	var none *redact.Set
	if redact.New() != nil || redact.New("", "abc") != nil {
		t.Error("there is a set of no secrets")
	}
	text := []byte("anything")
	if got := none.Bytes(text); &got[0] != &text[0] || none.Replace("x") != "x" || none.Found(text) || &none.Mask(text)[0] != &text[0] {
		t.Error("no set does something")
	}
	set := redact.New(token)
	if got := set.Bytes(text); &got[0] != &text[0] {
		t.Error("a text without secrets is copied")
	}
	if n := testing.AllocsPerRun(10, func() { set.Bytes(text) }); n > 0 {
		t.Errorf("%v allocations for nothing", n)
	}
}

func TestDataKeepsItsLength(t *testing.T) {
	data := []byte("\x00\x01" + token + "\x02")
	got := redact.New(token).Mask(data)
	if len(got) != len(data) || bytes.Contains(got, []byte(token)) || got[len(got)-1] != 2 || !bytes.Contains(data, []byte(token)) {
		t.Errorf("%q", got)
	}
}

// FuzzSet compares the scan with a plain search.
func FuzzSet(f *testing.F) {
	f.Add("abcdefgh", "xxabcdefghyy")
	f.Add(odd, "a"+odd+odd)
	f.Fuzz(func(t *testing.T, secret, text string) {
		set := redact.New(secret)
		if len(secret) < 4 {
			if set != nil {
				t.Fatal("too short for a secret")
			}
			return
		}
		got := set.Replace(text)
		if strings.Contains(text, secret) && !set.Found([]byte(text)) {
			t.Fatalf("%q is not found in %q", secret, text)
		}
		ofOurs := strings.Repeat("(redacted)", 2) // the secret may be made of what stands in its place
		if strings.Contains(got, secret) && !strings.Contains(ofOurs, secret) && strings.Count(got, "(redacted)") == strings.Count(text, "(redacted)") {
			t.Fatalf("%q is left in %q", secret, got)
		}
		if len(set.Mask([]byte(text))) != len(text) {
			t.Fatal("masked data has another length")
		}
	})
}

package failures

import (
	"errors"
	"strings"
	"testing"
)

func TestTheTargetOfACall(t *testing.T) {
	const order = `{"properties":{"order_id":{"type":"string"},"cents":{"type":"integer"},"note":{"type":"string"}},"required":["order_id","cents"]}`
	for _, c := range []struct {
		name, schema string
		paths        []string
		args, want   string
	}{
		{"an id", order, nil, `{"order_id":"A-9","cents":5}`, "A-9"},
		{"an id that is a number", order, nil, `{"order_id":9,"cents":5}`, "9"},
		{"it is missing", order, nil, `{"cents":5}`, ""},
		{"it is misspelt", order, nil, `{"orderid":"A-9"}`, ""},
		{"it is an object", order, nil, `{"order_id":{"a":1}}`, ""},
		{"what the config says", order, []string{"note"}, `{"order_id":"A-9","note":" x "}`, "x"},
		{"a member", order, []string{"file.path"}, `{"file":{"path":"/tmp/a"}}`, "/tmp/a"},
		{"a pointer", order, []string{"/a.b/c~1d"}, `{"a.b":{"c/d":true}}`, "true"},
		{"two of them", order, []string{"bucket", "key"}, `{"bucket":"b","key":"k"}`, "bucket=b, key=k"},
		{"one of two", order, []string{"bucket", "key"}, `{"key":"k"}`, "k"},
		{"a list", order, []string{"ids"}, `{"ids":["a",2]}`, "a,2"},
		{"a list of objects", order, []string{"ids"}, `{"ids":[{}]}`, ""},
		{"camelCase", `{"properties":{"filePath":{"type":"string"},"text":{"type":"string"}}}`, nil, `{"filePath":"a","text":"b"}`, "a"},
		{"required ones first", `{"properties":{"url":{},"proxy_url":{}},"required":["url"]}`, nil, `{"url":"u","proxy_url":"p"}`, "u"},
		{"optional ones", `{"properties":{"repo":{},"owner":{},"branch":{}}}`, nil, `{"repo":"r","branch":"b"}`, "branch=b, repo=r"},
		{"source and destination", `{"properties":{"source":{},"destination":{}},"required":["source","destination"]}`, nil, `{"source":"s","destination":"d"}`, "source=s, destination=d"},
		{"a required string", `{"properties":{"query":{"type":"string"},"limit":{"type":"integer"}},"required":["query"]}`, nil, `{"query":"q","limit":5}`, "q"},
		{"not what is written there", `{"properties":{"text":{"type":"string"}},"required":["text"]}`, nil, `{"text":"long"}`, ""},
		{"not a choice", `{"properties":{"unit":{"type":"string","enum":["c","f"]}},"required":["unit"]}`, nil, `{"unit":"c"}`, ""},
		{"not the request's own id", `{"properties":{"request_id":{"type":"string"},"trace_id":{}},"required":[]}`, nil, `{"request_id":"r"}`, ""},
		{"no schema", ``, nil, `{"path":"a"}`, ""},
		{"no JSON", `{`, nil, `{"path":"a"}`, ""},
		{"a secret", `{"properties":{"secret_id":{},"id":{}},"required":["id","secret_id"]}`, nil, `{"id":"a","secret_id":"hunter2"}`, "a"},
	} {
		t.Run(c.name, func(t *testing.T) {
			targeting, err := NewTargeting(c.paths, []byte(c.schema), func(path ...string) bool { return path[0] == "secret_id" })
			if err != nil {
				t.Fatal(err)
			}
			if got := targeting.Of(decoded(t, c.args)); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
	var unknown *Targeting
	if got := unknown.Of(decoded(t, `{"text":"x","order_id":"A-9","path":"p"}`)); got != "order_id=A-9, path=p" {
		t.Errorf("of a tool that does not exist: %q", got)
	}
	if got := unknown.Of(nil); got != "" {
		t.Errorf("of nothing: %q", got)
	}
}

func TestALongTargetStaysAnother(t *testing.T) {
	var unknown *Targeting
	long := strings.Repeat("日", 1000)
	a, b := unknown.Of(map[string]any{"path": long + "a"}), unknown.Of(map[string]any{"path": long + "b"})
	if a == b || len(a) > maxTarget || len(b) > maxTarget {
		t.Errorf("%q, %q", a, b)
	}
}

func TestBadTargetsNameTheField(t *testing.T) {
	for want, paths := range map[string][]string{
		"target[1]: must name an argument": {"a", ""}, "target[0]: must name": {"a..b"}, "target[0]: must name an": {"/"}, "target: at most": {"a", "b", "c", "d", "e"},
	} {
		_, err := NewTargeting(paths, nil, nil)
		if _, ok := errors.AsType[*FieldError](err); !ok || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %v", paths, err)
		}
	}
}

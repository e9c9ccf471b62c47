package backend_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/tool"
)

func TestWhatAnUpstreamSays(t *testing.T) {
	for name, c := range map[string]struct{ mediaType, body, want string }{
		"RFC 9457":         {"application/problem+json", `{"type":"about:blank","title":"Out of credit","detail":"Your balance is 30, but that costs 50.","status":403}`, "Out of credit: Your balance is 30, but that costs 50."},
		"RFC 9457, list":   {"application/problem+json", `{"title":"Invalid","errors":[{"detail":"must be a positive integer","pointer":"#/age"},{"detail":"must be green","pointer":"#/color"}]}`, "Invalid (#/age: must be a positive integer; #/color: must be green)"},
		"error text":       {"", `{"error":"order is closed"}`, "order is closed"},
		"error object":     {"", `{"error":{"code":"card_declined","message":"Your card was declined.","param":"card"}}`, "card: Your card was declined."},
		"Google":           {"", `{"error":{"code":400,"message":"API key not valid.","status":"INVALID_ARGUMENT","details":[{"@type":"x","reason":"API_KEY_INVALID"}]}}`, "API key not valid. (API_KEY_INVALID)"},
		"JSON:API":         {"", `{"errors":[{"status":"422","title":"Invalid Attribute","detail":"First name must be long."}]}`, "Invalid Attribute: First name must be long."},
		"GraphQL":          {"", `{"errors":[{"message":"Cannot query field","path":["a",0]}],"data":null}`, "a.0: Cannot query field"},
		"FastAPI":          {"", `{"detail":[{"loc":["body","items",0,"sku"],"msg":"field required","type":"value_error.missing"}]}`, "body.items.0.sku: field required"},
		"Rails":            {"", `{"errors":{"name":["is too short","is odd"],"age":["is not a number"]}}`, "age: is not a number; name: is too short; is odd"},
		"OAuth":            {"", `{"error":"invalid_grant","error_description":"The token has expired."}`, "The token has expired."},
		"many":             {"", `{"errors":["a","b","c","d","e","a"]}`, "a; b; c; and 2 more"},
		"a bare text":      {"", `"nope"`, "nope"},
		"a bare list":      {"", `["nope","never"]`, "nope; never"},
		"no known member":  {"", `{"kode":7,"stack":"at x (y.js:1:2)"}`, `{"kode":7}`},
		"only a stack":     {"", `{"stack":"at x (y.js:1:2)"}`, "an error without a message"},
		"a number":         {"", `7`, "7"},
		"deep":             {"", `{"error":{"error":{"error":{"error":{"error":{"error":{"message":"deep"}}}}}}}`, `{"error":{"error":{"error":{"error":{"error":{"error":{"message":"deep"}}}}}}}`},
		"a page":           {"text/html", "<!doctype html><html><head>\n<title>\n 502 &amp; more </title>", `an HTML page titled "502 & more"`},
		"a page, no title": {"text/html; charset=utf-8", "<html><body>oops", "an HTML page"},
		"a page in plain":  {"text/plain", "<html><h1>Bad Gateway</h1>", `an HTML page titled "Bad Gateway"`},
		"plain text":       {"text/plain", " database is locked \n", "database is locked"},
		"a Python error":   {"text/plain", "Internal error\nTraceback (most recent call last):\n  File \"a.py\", line 1, in f\n    x()\nValueError: no such order\n", "Internal error\nValueError: no such order"},
		"a Java error":     {"text/plain", "java.lang.IllegalStateException: closed\n\tat com.acme.Order.close(Order.java:12)\n\tat x.y.z(Z.java:1)\n\t... 3 more", "java.lang.IllegalStateException: closed"},
		"a Node error":     {"", `{"message":"TypeError: x is undefined\n    at Object.<anonymous> (/app/a.js:1:1)"}`, "TypeError: x is undefined"},
		"a Go panic":       {"text/plain", "panic: nil map\ngoroutine 1 [running]:\nmain.main()\n\t/a.go:1 +0x1", "panic: nil map"},
		"nothing":          {"text/plain", " \n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			reply := tool.Reply{Text: []byte(c.body), JSON: json.Valid([]byte(c.body)), Header: map[string]string{"content-type": c.mediaType}}
			if got := backend.Message(&reply); got != c.want {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
	many := tool.Reply{JSON: true, Text: []byte("[0" + strings.Repeat(`,"a"`, 50) + `,"b","c","d"` + strings.Repeat(`,"e"`, 1000) + "]")}
	if got := backend.Message(&many); got != "a; b; c; and 956 more" {
		t.Errorf("a long list says %q", got)
	}
	if got := backend.Message(&tool.Reply{Binary: "image/png", Size: 10}); got != "" {
		t.Errorf("a picture says %q", got)
	}
}

func FuzzMessage(f *testing.F) {
	for _, body := range []string{`{"errors":{"a":[{"errors":[1]}]}}`, `{"error":{"error":[]}}`, "<title>x", "Traceback (most recent call last)", "[[[["} {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		reply := tool.Reply{Text: []byte(body), JSON: json.Valid([]byte(body))}
		if got := backend.Message(&reply); len(got) > 8*len(body)+100 {
			t.Errorf("%d bytes say %d", len(body), len(got))
		}
	})
}

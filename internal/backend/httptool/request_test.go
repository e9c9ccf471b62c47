package httptool_test

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/trace"

	"github.com/sidecall/sidecall/internal/backend/httptool"
	"github.com/sidecall/sidecall/internal/tool"
)

// seen is a request as the upstream saw it.
type seen struct {
	Method, URI, Body string
	Header            http.Header
	Length            int64
	Coding            []string
	Host              string
}

// recorder is an upstream that remembers its last request.
func recorder(t testing.TB) (url string, last *seen) {
	t.Helper()
	last = new(seen)
	url = serve(t, func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		*last = seen{r.Method, r.RequestURI, string(body), r.Header, r.ContentLength, r.TransferEncoding, r.Host}
	})
	return url, last
}

func TestWhatACallBecomes(t *testing.T) {
	base, got := recorder(t)
	b := at(t, base+"/api/")
	for name, c := range map[string]struct {
		spec            httptool.Spec
		args, uri, body string
	}{
		"a path argument":                       {httptool.Spec{Path: "/orders/{id}"}, `{"id":"A-1"}`, "/api/orders/A-1", ""},
		"several":                               {httptool.Spec{Path: "/{a}/x/{b}.{c}"}, `{"a":1,"b":true,"c":"json"}`, "/api/1/x/true.json", ""},
		"no path":                               {httptool.Spec{}, `{}`, "/api", ""},
		"a slash at the end":                    {httptool.Spec{Path: "/orders/"}, `{}`, "/api/orders/", ""},
		"reserved characters are escaped":       {httptool.Spec{Path: "/f/{id}"}, `{"id":"a/b?c#d%2f;e:f é"}`, "/api/f/a%2Fb%3Fc%23d%252f%3Be%3Af%20%C3%A9", ""},
		"a percent is no escape":                {httptool.Spec{Path: "/f/{id}"}, `{"id":"3.5% of 100%"}`, "/api/f/3.5%25%20of%20100%25", ""},
		"query":                                 {httptool.Spec{Path: "/s", Query: map[string]string{"q": "query", "n": "limit"}}, `{"limit":5,"query":"a&b=c d","other":1}`, "/api/s?n=5&q=a%26b%3Dc%20d", ""},
		"a list in the query":                   {httptool.Spec{Path: "/s", Query: map[string]string{"tag[]": "tags"}}, `{"tags":["a",1,true]}`, "/api/s?tag%5B%5D=a&tag%5B%5D=1&tag%5B%5D=true", ""},
		"absent and null are left out":          {httptool.Spec{Path: "/s", Query: map[string]string{"a": "a", "b": "b"}}, `{"b":null}`, "/api/s", ""},
		"a fixed query":                         {httptool.Spec{Path: "/s?type=order", Query: map[string]string{"q": "q"}}, `{"q":"x"}`, "/api/s?type=order&q=x", ""},
		"the rest of a GET goes into the query": {httptool.Spec{Path: "/s/{id}"}, `{"id":1,"b":2,"a b":[3,4]}`, "/api/s/1?a%20b=3&a%20b=4&b=2", ""},
		"but not past an explicit query":        {httptool.Spec{Path: "/s", Query: map[string]string{}}, `{"b":2}`, "/api/s", ""},
		"the whole object is the body":          {httptool.Spec{Method: "POST", Path: "/o"}, `{"a":1.50,"b":{"c":"<d>"}}`, "/api/o", `{"a":1.50,"b":{"c":"<d>"}}`},
		"less what is used elsewhere":           {httptool.Spec{Method: "PUT", Path: "/o/{id}", Query: map[string]string{"v": "v"}, Headers: map[string]string{"X-H": "h"}}, `{"a":[1,2],"h":"x","id":7,"v":1,"z":12345678901234567890}`, "/api/o/7?v=1", `{"a":[1,2],"z":12345678901234567890}`},
		"nothing left is an empty object":       {httptool.Spec{Method: "PATCH", Path: "/o/{id}"}, `{"id":7}`, "/api/o/7", `{}`},
		"one argument is the body":              {httptool.Spec{Method: "POST", Path: "/o", Body: &httptool.Body{Arg: "order"}}, `{"order":{"x":[1]},"y":2}`, "/api/o", `{"x":[1]}`},
		"a list as the body":                    {httptool.Spec{Method: "POST", Path: "/o", Body: &httptool.Body{Arg: "list"}}, `{"list":["a"]}`, "/api/o", `["a"]`},
		"members":                               {httptool.Spec{Method: "POST", Path: "/o", Body: &httptool.Body{Members: map[string]string{"b\"q": "a", "c": "missing", "d": "e"}}}, `{"a":"x","e":null}`, "/api/o", `{"b\"q":"x","d":null}`},
		"no body for a POST":                    {httptool.Spec{Method: "POST", Path: "/o", Body: &httptool.Body{}}, `{"a":1}`, "/api/o", ""},
		"a body for a DELETE":                   {httptool.Spec{Method: "DELETE", Path: "/o", Body: &httptool.Body{Arg: "ids"}}, `{"ids":[1]}`, "/api/o", "[1]"},
		"a member name with escapes":            {httptool.Spec{Method: "POST", Path: "/o/{a}"}, `{"\u0061":1,"caf\u00e9":2}`, "/api/o/1", `{"caf\u00e9":2}`},
	} {
		t.Run(name, func(t *testing.T) {
			_, failure := call{spec: c.spec, args: c.args}.on(t, b)
			noFailure(t, failure)
			if got.URI != c.uri || got.Body != c.body {
				t.Errorf("sent %s with %s, want %s with %s", got.URI, got.Body, c.uri, c.body)
			}
			if hasBody := c.body != ""; hasBody != (got.Header.Get("Content-Type") == "application/json") {
				t.Errorf("content type = %q for body %q", got.Header.Get("Content-Type"), got.Body)
			}
		})
	}
}

func TestABodilessRequestLooksLikeOne(t *testing.T) {
	base, got := recorder(t)
	b := at(t, base)
	for _, method := range []string{"GET", "HEAD", "DELETE"} {
		_, failure := call{spec: httptool.Spec{Method: method, Path: "/x"}}.on(t, b)
		noFailure(t, failure)
		if got.Length != 0 || got.Coding != nil || got.Method != method {
			t.Errorf("%s: length %d, coding %v", got.Method, got.Length, got.Coding)
		}
	}
	_, failure := call{spec: httptool.Spec{Method: "POST", Path: "/x", Body: &httptool.Body{}}}.on(t, b)
	noFailure(t, failure)
	if diff := cmp.Diff([]string{"chunked"}, got.Coding); diff != "" || got.Body != "" {
		t.Errorf("POST: %s", diff)
	}
}

func TestHeaders(t *testing.T) {
	base, got := recorder(t)
	b := open(t, httptool.Config{BaseURL: base, AllowPrivate: true, Headers: map[string]string{
		"authorization": "Bearer s3cret", "Host": "shop.example",
	}})
	_, failure := call{
		spec: httptool.Spec{
			Method: "POST", Path: "/x", IdempotencyHeader: "idempotency-key",
			Headers: map[string]string{"x-tenant": "tenant", "X-Absent": "absent"},
		},
		args: `{"tenant":"acme é"}`, key: "key-1",
	}.on(t, b)
	noFailure(t, failure)
	for name, want := range map[string]string{
		"Authorization": "Bearer s3cret", "Idempotency-Key": "key-1", "X-Tenant": "acme é",
		"User-Agent": "sidecall", "Content-Type": "application/json", "Traceparent": "",
	} {
		if value := got.Header.Get(name); value != want {
			t.Errorf("%s = %q, want %q", name, value, want)
		}
	}
	if _, sent := got.Header["X-Absent"]; sent {
		t.Error("a header was sent for an absent argument")
	}
	if got.Host != "shop.example" {
		t.Errorf("host = %q", got.Host)
	}
}

func TestTheTraceContextGoesAlong(t *testing.T) {
	base, got := recorder(t)
	span := trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1, 2, 3}, SpanID: trace.SpanID{4, 5}, TraceFlags: trace.FlagsSampled,
	})
	ctx := trace.ContextWithSpanContext(t.Context(), span)
	_, failure := call{spec: httptool.Spec{Path: "/x"}}.under(ctx, t, at(t, base))
	noFailure(t, failure)
	if value, sent := got.Header["Baggage"]; sent {
		t.Errorf("baggage = %q, and there is none", value)
	}
	if want := "00-01020300000000000000000000000000-0405000000000000-01"; got.Header.Get("Traceparent") != want {
		t.Errorf("traceparent = %q, want %q", got.Header.Get("Traceparent"), want)
	}
}

// Baggage goes along too, also where there is no span; and both are nobody else's to set.
func TestBaggageGoesAlong(t *testing.T) {
	base, got := recorder(t)
	carried, err := baggage.Parse("tenant=acme,user=4%207")
	if err != nil {
		t.Fatal(err)
	}
	b := at(t, base)
	_, failure := call{spec: httptool.Spec{Path: "/x"}}.under(baggage.ContextWithBaggage(t.Context(), carried), t, b)
	noFailure(t, failure)
	if arrived, err := baggage.Parse(got.Header.Get("Baggage")); err != nil || arrived.Member("tenant").Value() != "acme" || arrived.Member("user").Value() != "4 7" {
		t.Errorf("baggage = %q, %v", got.Header.Get("Baggage"), err)
	}
	for _, name := range []string{"baggage", "Traceparent"} {
		if err := b.Register("it", httptool.Spec{Method: "GET", Path: "/x", Headers: map[string]string{name: "arg"}}); err == nil {
			t.Errorf("an argument may be the header %s", name)
		}
	}
}

func TestArgumentsThatCannotBeSentAreRefused(t *testing.T) {
	base := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("a request was sent") })
	b := at(t, base)
	path := httptool.Spec{Path: "/o/{id}/items"}
	parts := httptool.Spec{Path: "/o/{id}{ext}"}
	query := httptool.Spec{Path: "/s", Query: map[string]string{"q": "q"}}
	header := httptool.Spec{Path: "/s", Headers: map[string]string{"X-Q": "q"}}
	for name, c := range map[string]struct {
		spec        httptool.Spec
		args, field string
		constraint  string
	}{
		"a missing path argument":      {path, `{}`, "id", "must be there"},
		"null in the path":             {path, `{"id":null}`, "id", "must be there"},
		"an empty path argument":       {path, `{"id":""}`, "id", "empty"},
		"a list in the path":           {path, `{"id":["a"]}`, "id", "string, number or boolean"},
		"an object in the path":        {path, `{"id":{}}`, "id", "string, number or boolean"},
		"two dots":                     {path, `{"id":".."}`, "id", "another path"},
		"one dot":                      {path, `{"id":"."}`, "id", "another path"},
		"climbing":                     {path, `{"id":"a/../../admin"}`, "id", "another path"},
		"climbing with backslashes":    {path, `{"id":"..\\admin"}`, "id", "another path"},
		"climbing, escaped":            {path, `{"id":"%2e%2e%2fadmin"}`, "id", "another path"},
		"climbing, escaped twice":      {path, `{"id":"%252e%252e%252fadmin"}`, "id", "another path"},
		"climbing, with a parameter":   {path, `{"id":"..;/admin"}`, "id", "another path"},
		"climbing before no escape":    {path, `{"id":"..%2fadmin%zz"}`, "id", "no escape"},
		"climbing before a half one":   {path, `{"id":"..%2fadmin%2"}`, "id", "no escape"},
		"climbing before a percent":    {path, `{"id":"..%2fadmin%"}`, "id", "another path"},
		"climbing, half escaped twice": {path, `{"id":"%%32e%%32e/admin"}`, "id", "another path"},
		"no escape":                    {path, `{"id":"a%zz"}`, "id", "no escape"},
		"no escape under an escape":    {path, `{"id":"..%252fadmin%25zz"}`, "id", "no escape"},
		"no escape but of IIS":         {path, `{"id":"%u002e%u002e/admin"}`, "id", "no escape"},
		"no escape in parts":           {parts, `{"id":"..%","ext":"2fadmin%z"}`, "ext", "no escape"},
		"climbing in parts":            {parts, `{"id":".","ext":"."}`, "ext", "another path"},
		"a line break in the path":     {path, `{"id":"a\r\nX: y"}`, "id", "control"},
		"a NUL in the path":            {path, `{"id":"a\u0000"}`, "id", "control"},
		"an object in the query":       {query, `{"q":{"a":1}}`, "q", "list of them"},
		"a list of lists in the query": {query, `{"q":[[1]]}`, "q", "list of them"},
		"too long for a URL":           {query, `{"q":"` + strings.Repeat("x", 20_000) + `"}`, "", "16384"},
		"a line break in a header":     {header, `{"q":"a\r\nX-Admin: 1"}`, "q", "line breaks"},
		"a NUL in a header":            {header, `{"q":"a\u0000b"}`, "q", "control"},
		"a list in a header":           {header, `{"q":["a"]}`, "q", "string, number or boolean"},
		"too long for a header":        {header, `{"q":"` + strings.Repeat("x", 9000) + `"}`, "q", "8192"},
		"a field that needs quotes":    {httptool.Spec{Path: "/o/{a.b}"}, `{"a.b":""}`, `["a.b"]`, "empty"},
	} {
		t.Run(name, func(t *testing.T) {
			_, failure := call{spec: c.spec, args: c.args}.on(t, b)
			proves(t, failure, tool.CodeInvalidArgs, tool.NotExecuted)
			if failure.Field != c.field || !strings.Contains(failure.Constraint, c.constraint) || failure.Hint == "" || !failure.CallerFault {
				t.Errorf("failure = %+v, want field %q and %q", failure, c.field, c.constraint)
			}
			if len(failure.Message) > 200 {
				t.Errorf("%d bytes of what was received are shown", len(failure.Message))
			}
		})
	}
}

func TestMistakesInASpecAreFoundAtRegistration(t *testing.T) {
	b := open(t, httptool.Config{BaseURL: "http://shop.example", Headers: map[string]string{"X-Api-Key": "k"}})
	for name, c := range map[string]struct {
		spec httptool.Spec
		want string
	}{
		"a method":                  {httptool.Spec{Method: "get"}, `method "get"`},
		"no slash":                  {httptool.Spec{Method: "GET", Path: "orders"}, "/ at the start"},
		"an empty segment":          {httptool.Spec{Method: "GET", Path: "/a//b"}, "empty segment"},
		"another host":              {httptool.Spec{Method: "GET", Path: "//evil.example/x"}, "empty segment"},
		"a climbing segment":        {httptool.Spec{Method: "GET", Path: "/a/../b"}, ".. segment"},
		"an escaped one":            {httptool.Spec{Method: "GET", Path: "/a/%2e%2e"}, ".. segment"},
		"an open brace":             {httptool.Spec{Method: "GET", Path: "/a/{b"}, "braces"},
		"a closing brace":           {httptool.Spec{Method: "GET", Path: "/a/b}"}, "braces"},
		"no name":                   {httptool.Spec{Method: "GET", Path: "/a/{}"}, "{argument}"},
		"a space":                   {httptool.Spec{Method: "GET", Path: "/a b"}, "percent-encoded"},
		"a fragment":                {httptool.Spec{Method: "GET", Path: "/a#b"}, "percent-encoded"},
		"an argument in a query":    {httptool.Spec{Method: "GET", Path: "/a?b={c}"}, "query"},
		"a header of the backend":   {httptool.Spec{Method: "GET", Headers: map[string]string{"x-api-key": "k"}}, "X-Api-Key"},
		"the host":                  {httptool.Spec{Method: "GET", Headers: map[string]string{"host": "h"}}, "Host"},
		"a framing header":          {httptool.Spec{Method: "GET", Headers: map[string]string{"transfer-encoding": "h"}}, "Transfer-Encoding"},
		"no header name":            {httptool.Spec{Method: "GET", Headers: map[string]string{"a b": "h"}}, `"a b"`},
		"a header twice":            {httptool.Spec{Method: "GET", Headers: map[string]string{"x-a": "h", "X-A": "i"}}, "twice"},
		"the key in a taken header": {httptool.Spec{Method: "POST", IdempotencyHeader: "X-Api-Key"}, "idempotency_header"},
		"the key in an argument's":  {httptool.Spec{Method: "POST", IdempotencyHeader: "X-K", Headers: map[string]string{"x-k": "h"}}, "idempotency_header"},
		"two bodies":                {httptool.Spec{Method: "POST", Body: &httptool.Body{Arg: "a", Members: map[string]string{}}}, "not both"},
		"a body for HEAD":           {httptool.Spec{Method: "HEAD", Body: &httptool.Body{Arg: "a"}}, "HEAD"},
	} {
		t.Run(name, func(t *testing.T) {
			err := b.Register("it", c.spec)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "tool it: ") {
				t.Errorf("error = %v, want %q", err, c.want)
			}
		})
	}
}

func TestMistakesInABackend(t *testing.T) {
	for name, c := range map[string]struct {
		cfg  httptool.Config
		want string
	}{
		"no scheme":     {httptool.Config{BaseURL: "shop.example/api"}, "http://host"},
		"a scheme":      {httptool.Config{BaseURL: "ftp://shop.example"}, "http://host"},
		"no host":       {httptool.Config{BaseURL: "http:///api"}, "host is missing"},
		"a password":    {httptool.Config{BaseURL: "http://u:hunter22@shop.example"}, "Authorization"},
		"a query":       {httptool.Config{BaseURL: "http://shop.example?a=b"}, "query"},
		"a line break":  {httptool.Config{BaseURL: "http://shop.example", Headers: map[string]string{"X-A": "hunter22\n"}}, "X-A"},
		"a framing one": {httptool.Config{BaseURL: "http://shop.example", Headers: map[string]string{"Connection": "close"}}, "Connection"},
		"a bad name":    {httptool.Config{BaseURL: "http://shop.example", Headers: map[string]string{"a:b": "c"}}, "a:b"},
	} {
		t.Run(name, func(t *testing.T) {
			c.cfg.Name = "shop"
			_, err := httptool.New(c.cfg)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "backend shop: ") {
				t.Errorf("error = %v, want %q", err, c.want)
			}
			if err != nil && strings.Contains(err.Error(), "hunter22") {
				t.Errorf("error %q shows a secret", err)
			}
		})
	}
}

func TestUnusedArguments(t *testing.T) {
	names := []string{"id", "q", "x"}
	for name, c := range map[string]struct {
		spec httptool.Spec
		want []string
	}{
		"everything goes into the body":  {httptool.Spec{Method: "POST", Path: "/{id}"}, nil},
		"everything goes into the query": {httptool.Spec{Method: "GET", Path: "/{id}"}, nil},
		"an explicit query":              {httptool.Spec{Method: "GET", Path: "/{id}", Query: map[string]string{"a": "q"}}, []string{"x"}},
		"an explicit body":               {httptool.Spec{Method: "POST", Body: &httptool.Body{Members: map[string]string{"a": "x"}}, Headers: map[string]string{"X-Q": "q"}}, []string{"id"}},
		"no body":                        {httptool.Spec{Method: "POST", Body: &httptool.Body{}}, names},
	} {
		if diff := cmp.Diff(c.want, c.spec.Unused(names)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestCallsOfAToolThatIsNotThere(t *testing.T) {
	b := at(t, "http://127.0.0.1:1")
	_, failure := b.Invoke(context.Background(), call{}.invocation(t))
	if failure == nil || failure.Code != tool.CodeInternal || failure.Evidence != tool.NotExecuted {
		t.Errorf("failure = %+v, want INTERNAL, not executed", failure)
	}
}

// FuzzPathArgument: whatever an argument is, it is one segment of the path, or
// refused.
func FuzzPathArgument(f *testing.F) {
	for _, value := range []string{"A-1", "..", "a/b", "%2e%2e", "..;x", "\x00", "é", "a?b#c", "\\..\\", "%", "%%32e", "..%2fadmin%zz"} {
		f.Add(value, value)
	}
	base, got := recorder(f)
	b := at(f, base)
	if err := b.Register("it", httptool.Spec{Method: "GET", Path: "/a/{id}/b", Query: map[string]string{"q": "q"}}); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, id, q string) {
		in := call{}.invocation(t)
		in.Args, in.Parsed = nil, map[string]any{"id": id, "q": q}
		*got = seen{}
		_, failure := b.Invoke(t.Context(), in)
		if failure != nil {
			if failure.Code != tool.CodeInvalidArgs {
				t.Fatalf("failure = %+v", failure)
			}
			return
		}
		path, query, _ := strings.Cut(got.URI, "?")
		segments := strings.Split(path, "/")
		if len(segments) != 4 || segments[1] != "a" || segments[3] != "b" || segments[2] == ".." || segments[2] == "." {
			t.Fatalf("%q became %q", id, got.URI)
		}
		if plain, err := url.PathUnescape(segments[2]); err != nil || plain != id {
			t.Errorf("%q arrived as %q", id, plain)
		}
		values, err := url.ParseQuery(query)
		if err != nil || len(values) != 1 || values.Get("q") != q {
			t.Errorf("%q arrived as %v", q, values)
		}
	})
}

// No argument becomes a query parameter that the operator has fixed, in whatever
// spelling a server may take for it.
func TestAFixedQueryParameterStays(t *testing.T) {
	base, got := recorder(t)
	b := at(t, base)
	spec := httptool.Spec{Method: "GET", Path: "/orders?tenant=acme&page_size=10"}
	for _, name := range []string{"tenant", "Tenant", "tenant[]", " tenant", "page.size", "page size"} {
		_, failure := call{spec: spec, args: `{"` + name + `":"evil"}`}.on(t, b)
		proves(t, failure, tool.CodeInvalidArgs, tool.NotExecuted)
	}
	if got.URI != "" {
		t.Errorf("the upstream was asked for %s", got.URI)
	}
	_, failure := call{spec: spec, args: `{"tenants":"x"}`}.on(t, b)
	noFailure(t, failure)
	if got.URI != "/orders?tenant=acme&page_size=10&tenants=x" {
		t.Errorf("another parameter is lost: %s", got.URI)
	}
	if err := b.Register("map", httptool.Spec{Method: "GET", Path: "/orders?tenant=acme", Query: map[string]string{"tenant": "who"}}); err == nil {
		t.Error("an argument is mapped to a fixed parameter")
	}
}

package httptool_test

import (
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sidecall/sidecall/internal/backend/httptool"
	"github.com/sidecall/sidecall/internal/tool"
	"github.com/sidecall/sidecall/test/testkit/deadline"
	"github.com/sidecall/sidecall/test/testkit/upstream"
)

// misbehaving runs the scripted upstream.
func misbehaving(t *testing.T) *upstream.Server {
	t.Helper()
	s, err := upstream.Start(upstream.New(upstream.NewLedger()), "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestWhatABodyIs(t *testing.T) {
	var contentType, body string
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Content-Type"] = []string{contentType}
		if contentType == "" {
			w.Header()["Content-Type"] = nil
		}
		_, _ = io.WriteString(w, body)
	})
	b := at(t, url)
	for name, c := range map[string]struct {
		contentType, body string
		text              string
		json              bool
		binary            string
	}{
		"JSON":                         {"application/json; charset=utf-8", `{"a":1}`, `{"a":1}`, true, ""},
		"problem details":              {"application/problem+json", `{"a":1}`, `{"a":1}`, true, ""},
		"a JSON number":                {"application/json", ` 7 `, ` 7 `, true, ""},
		"JSON in name only":            {"application/json", `<html>`, `<html>`, false, ""},
		"two JSON values":              {"application/json", `{} {}`, `{} {}`, false, ""},
		"JSON with a byte order mark":  {"application/json", "\xef\xbb\xbf{}", `{}`, true, ""},
		"JSON that is called text":     {"text/plain", ` {"a":1}`, ` {"a":1}`, true, ""},
		"JSON that is called nothing":  {"", `[1]`, `[1]`, true, ""},
		"a number that is called text": {"text/plain", `7`, `7`, false, ""},
		"HTML":                         {"text/html", `<p>`, `<p>`, false, ""},
		"Latin-1":                      {"text/plain; charset=iso-8859-1", "caf\xe9", "café", false, ""},
		"Japanese":                     {"text/html; charset=Shift_JIS", "\x93\xfa\x96\x7b", "\u65e5\u672c", false, ""},
		"UTF-16":                       {"text/plain", "\xff\xfeh\x00i\x00", "hi", false, ""},
		"an unknown charset":           {"text/plain; charset=klingon", "caf\xe9", "caf\xe9", false, ""},
		"invalid UTF-8":                {"text/plain", "caf\xe9 au lait", "caf\xe9 au lait", false, ""},
		"an image":                     {"image/png", "\x89PNG\r\n", "", false, "image/png"},
		"an SVG image":                 {"image/svg+xml", "<svg/>", "<svg/>", false, ""},
		"a PDF":                        {"application/pdf", "%PDF-1.7", "", false, "application/pdf"},
		"bytes that are text":          {"application/octet-stream", "hello", "hello", false, ""},
		"bytes that are not":           {"application/octet-stream", "\x00\x01\x02", "", false, "application/octet-stream"},
		"bytes of no declared type":    {"", "\x7fELF\x02\x01\x01\x00\x00", "", false, "application/octet-stream"},
		"a malformed type":             {"text/", "hello", "hello", false, ""},
		"nothing":                      {"application/json", "", "", false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			contentType, body = c.contentType, c.body
			reply, failure := call{spec: httptool.Spec{Path: "/x"}}.on(t, b)
			noFailure(t, failure)
			if string(reply.Text) != c.text || reply.JSON != c.json || reply.Binary != c.binary {
				t.Errorf("text %q, JSON %v, binary %q; want %q, %v, %q", reply.Text, reply.JSON, reply.Binary, c.text, c.json, c.binary)
			}
			if reply.Size != int64(len(c.body)) || reply.Cut || reply.Status != 200 {
				t.Errorf("size %d, cut %v, status %d", reply.Size, reply.Cut, reply.Status)
			}
		})
	}
}

func TestHeadersOfAReply(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Add("X-Many", "a")
		w.Header().Add("X-Many", "b")
		w.WriteHeader(http.StatusNoContent)
	})
	reply, failure := call{spec: httptool.Spec{Path: "/x"}}.on(t, at(t, url))
	noFailure(t, failure)
	if reply.Header["x-many"] != "a, b" || reply.Status != 204 {
		t.Errorf("reply = %+v", reply)
	}
}

func TestReadingStopsAtTheLimit(t *testing.T) {
	s := misbehaving(t)
	b := at(t, s.URL)
	const limit = 100_000
	for name, c := range map[string]struct {
		step upstream.Step
		size int64 // 0: not known
		cut  bool
	}{
		"an endless body":          {upstream.Endless(), 0, true},
		"a compressed bomb":        {upstream.GzipBomb(1 << 30), 0, true},
		"a huge JSON":              {upstream.HugeJSON(100_000), 0, true},
		"one byte more":            {upstream.Text("text/plain", strings.Repeat("x", limit+1)), limit + 1, true},
		"exactly the limit":        {upstream.Text("text/plain", strings.Repeat("x", limit)), limit, false},
		"one byte less":            {upstream.Text("text/plain", strings.Repeat("x", limit-1)), limit - 1, false},
		"an image above the limit": {upstream.Text("image/png", strings.Repeat("x", limit+5)), limit + 5, true},
	} {
		t.Run(name, func(t *testing.T) {
			s.Script("/x", c.step)
			reply, failure := call{spec: httptool.Spec{Path: "/x"}, limit: limit}.on(t, b)
			noFailure(t, failure)
			if reply.Cut != c.cut || len(reply.Text) > limit || cap(reply.Text) > 2*limit || reply.JSON {
				t.Errorf("cut %v, %d bytes in %d, JSON %v", reply.Cut, len(reply.Text), cap(reply.Text), reply.JSON)
			}
			if c.size != 0 && reply.Size != c.size {
				t.Errorf("size %d, want %d", reply.Size, c.size)
			}
			if reply.Binary == "" && c.cut && len(reply.Text) != limit {
				t.Errorf("%d bytes, want %d", len(reply.Text), limit)
			}
		})
	}
}

func TestASuccessWhoseBodyIsLostRanAllTheSame(t *testing.T) {
	s := misbehaving(t)
	b := at(t, s.URL)
	for name, c := range map[string]struct {
		step     upstream.Step
		code     tool.Code
		evidence tool.Evidence
	}{
		"a lying length":        {upstream.ShortBody(), tool.CodeDependencyUnavailable, tool.Ambiguous},
		"a dripping body":       {upstream.Drip(5 * time.Millisecond), tool.CodeTimeout, tool.Ambiguous},
		"broken compression":    {upstream.BadGzip(), tool.CodeInvalidOutput, tool.Definite},
		"an unknown encoding":   {upstream.JSON("{}").WithHeader("Content-Encoding", "br"), tool.CodeInvalidOutput, tool.Definite},
		"an answer not in HTTP": {upstream.NotHTTP(), tool.CodeDependencyUnavailable, tool.Ambiguous},
		"a giant header":        {upstream.GiantHeader(1 << 20), tool.CodeDependencyUnavailable, tool.Ambiguous},
		"no answer":             {upstream.Hang(), tool.CodeTimeout, tool.Ambiguous},
		"a reset":               {upstream.ResetAfter(), tool.CodeDependencyUnavailable, tool.Ambiguous},
		"a close":               {upstream.CloseAfter(), tool.CodeDependencyUnavailable, tool.Ambiguous},
	} {
		t.Run(name, func(t *testing.T) {
			s.Script("/x", c.step)
			ctx, pass := deadline.On()
			if c.code == tool.CodeTimeout {
				go func() {
					defer pass()
					if err := s.Ledger.Await(t.Context(), name, 1); err != nil {
						t.Error(err)
					}
				}()
			}
			_, failure := call{spec: httptool.Spec{Method: "POST", Path: "/x"}, args: `{"key":"` + name + `"}`}.under(ctx, t, b)
			proves(t, failure, c.code, c.evidence)
			if n := s.Ledger.Executions(name); n != 1 {
				t.Errorf("%d executions, want 1", n)
			}
			if strings.Contains(failure.Message, "127.0.0.1") || strings.Contains(failure.Constraint, "127.0.0.1") {
				t.Errorf("failure shows an address: %+v", failure)
			}
		})
	}
}

func TestCompressionNobodyAskedFor(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Set("Content-Type", "text/plain")
		if r.Method == http.MethodHead {
			return
		}
		packed := gzip.NewWriter(w)
		_, _ = io.WriteString(packed, "hello")
		_ = packed.Close()
	})
	// A configured Accept-Encoding switches net/http's own decompression off.
	b := open(t, httptool.Config{BaseURL: url, AllowPrivate: true, Headers: map[string]string{"Range": "bytes=0-99"}})
	reply, failure := call{spec: httptool.Spec{Path: "/x"}}.on(t, b)
	noFailure(t, failure)
	if string(reply.Text) != "hello" {
		t.Errorf("text = %q", reply.Text)
	}
	_, failure = call{spec: httptool.Spec{Method: "HEAD", Path: "/x"}}.on(t, b)
	noFailure(t, failure)
}

func TestManyCallsAtOnce(t *testing.T) {
	s := misbehaving(t)
	b := at(t, s.URL)
	if err := b.Register("it", httptool.Spec{Method: "POST", Path: "/do/{id}"}); err != nil {
		t.Fatal(err)
	}
	t.Run("together", func(t *testing.T) {
		for range 16 {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				in := call{args: `{"id":"a","x":1}`}.invocation(t)
				for range 50 {
					reply, failure := b.Invoke(t.Context(), in)
					noFailure(t, failure)
					if !reply.JSON {
						t.Fatalf("reply = %s", reply.Text)
					}
				}
			})
		}
	})
	if n := s.Ledger.Executions("/do/a"); n != 800 {
		t.Errorf("%d executions, want 800", n)
	}
}

func TestCloseWaitsForCallsAndThenEndsThem(t *testing.T) {
	s := misbehaving(t)
	b, err := httptool.New(httptool.Config{Name: "shop", BaseURL: s.URL, AllowPrivate: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Script("/x", upstream.Hang())
	if err := b.Register("it", httptool.Spec{Method: "POST", Path: "/x"}); err != nil {
		t.Fatal(err)
	}
	ended := make(chan *tool.Failure, 1)
	go func() {
		_, failure := b.Invoke(context.Background(), call{}.invocation(t))
		ended <- failure
	}()
	if err := s.Ledger.Await(t.Context(), "/x", 1); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := b.Close(ctx); err == nil {
		t.Error("Close says nothing of the call in flight")
	}
	proves(t, <-ended, tool.CodeDependencyUnavailable, tool.Ambiguous)
	_, failure := b.Invoke(context.Background(), call{}.invocation(t))
	proves(t, failure, tool.CodeDependencyUnavailable, tool.NotExecuted)
}

func TestPrivateAddressesAreRefusedUnlessAllowed(t *testing.T) {
	url := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("a request was sent") })
	for _, base := range []string{url, strings.Replace(url, "127.0.0.1", "localhost", 1), strings.Replace(url, "127.0.0.1", "[::ffff:127.0.0.1]", 1)} {
		b := open(t, httptool.Config{BaseURL: base})
		_, failure := call{spec: httptool.Spec{Method: "POST", Path: "/x"}}.on(t, b)
		proves(t, failure, tool.CodeUnrecoverable, tool.NotExecuted)
		if failure.ErrorType != "address_refused" {
			t.Errorf("%s: error type = %s: %v", base, failure.ErrorType, failure.Err)
		}
	}
	b := open(t, httptool.Config{BaseURL: "http://169.254.169.254", AllowPrivate: true})
	_, failure := call{spec: httptool.Spec{Path: "/latest/meta-data"}}.on(t, b)
	proves(t, failure, tool.CodeUnrecoverable, tool.NotExecuted)
}

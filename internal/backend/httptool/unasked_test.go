package httptool_test

import (
	"crypto/tls"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sidecall/sidecall/internal/backend/httptool"
	"github.com/sidecall/sidecall/internal/tool"
	"github.com/sidecall/sidecall/test/testkit/wire"
)

// overBoth runs a test against a server of HTTP/1.1, as it is and over TLS.
func overBoth(t *testing.T, handle func(x *wire.Exchange) bool, test func(t *testing.T, b *httptool.Backend)) {
	t.Helper()
	t.Run("plain", func(t *testing.T) { test(t, at(t, wire.HTTP1(t, handle))) })
	t.Run("TLS", func(t *testing.T) {
		url, roots := wire.HTTPS1(t, handle)
		test(t, open(t, httptool.Config{
			BaseURL: url, AllowPrivate: true, TLS: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12},
		}))
	})
}

// TestAnAnswerNobodyAskedForAnswersNothing: HTTP/1.1 has no ids, so a second
// answer on a kept connection would be taken for that of the next call.
func TestAnAnswerNobodyAskedForAnswersNothing(t *testing.T) {
	var executions atomic.Int64
	twice := func(x *wire.Exchange) bool {
		if !x.ReadBody() {
			return false
		}
		executions.Add(1)
		answer := "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s"
		own, extra := "for "+x.URL.Path, "once more for "+x.URL.Path
		// In one packet, so that the second is there as soon as the first.
		_, err := fmt.Fprintf(x.Conn, strings.Repeat(answer, 2), len(own), own, len(extra), extra)
		return err == nil
	}
	overBoth(t, twice, func(t *testing.T, b *httptool.Backend) {
		executions.Store(0)
		if err := b.Register("it", httptool.Spec{Method: "POST", Path: "/{n}"}); err != nil {
			t.Fatal(err)
		}
		const callers, each = 8, 50
		var all sync.WaitGroup
		for caller := range callers {
			all.Go(func() {
				for i := range each {
					n := fmt.Sprintf("%d-%d", caller, i)
					reply, failure := b.Invoke(t.Context(), call{args: fmt.Sprintf(`{"n":%q}`, n)}.invocation(t))
					if failure != nil || string(reply.Text) != "for /"+n {
						t.Errorf("call %s got %q, %+v", n, reply.Text, failure)
					}
				}
			})
		}
		all.Wait()
		if n := executions.Load(); n != callers*each {
			t.Errorf("%d executions of %d calls", n, callers*each)
		}
	})
}

// TestAnAnswerThatComesLaterAnswersNothing: it arrives while the connection is
// kept, of which the reader of the connection may not have been told yet.
func TestAnAnswerThatComesLaterAnswersNothing(t *testing.T) {
	const calls = 200
	late := make(chan func(), 3*calls) // with room for what a call that failed has left there
	once := func(x *wire.Exchange) bool {
		if !x.ReadBody() {
			return false
		}
		late <- func() { x.OK("unasked") }
		return x.OK("for " + x.URL.Path)
	}
	overBoth(t, once, func(t *testing.T, b *httptool.Backend) {
		for i := range calls {
			n := fmt.Sprint(i)
			reply, failure := call{spec: httptool.Spec{Method: "POST", Path: "/{n}"}, args: fmt.Sprintf(`{"n":%q}`, n), effect: tool.NonIdempotent}.on(t, b)
			if failure != nil || string(reply.Text) != "for /"+n {
				t.Fatalf("call %s got %q, %+v", n, reply.Text, failure)
			}
			(<-late)()
		}
	})
}

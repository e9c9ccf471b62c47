package notify_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sidecall/sidecall/internal/notify"
	"github.com/sidecall/sidecall/internal/tool"
	"github.com/sidecall/sidecall/test/testkit/harness"
)

// hook is a webhook that answers as it is told.
type hook func(attempt int, req *http.Request, body []byte) (int, error)

func (h hook) transport(attempts *int) http.RoundTripper {
	return roundTrip(func(req *http.Request) (*http.Response, error) {
		*attempts++
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, err
		}
		code, err := h(*attempts, req, body)
		if err != nil {
			return nil, err
		}
		return &http.Response{StatusCode: code, Body: http.NoBody, Header: http.Header{}}, nil
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

func lost(id string) notify.Event {
	return notify.Event{Kind: notify.Unknown, Call: tool.CallID{Conversation: "c1", Turn: "t1", ID: id}, Claim: "1", Tool: "refund", Why: "the answer was lost", At: time.Unix(1e9, 0)}
}

// tell runs a notifier until all that is told is settled.
func tell(t *testing.T, options notify.Options, events ...notify.Event) *notify.Notifier {
	t.Helper()
	n := notify.New(options)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		n.Run(ctx)
	}()
	for _, e := range events {
		n.Tell(e)
	}
	time.Sleep(24 * time.Hour) // of the bubble's clock: whatever may be tried was tried
	synctest.Wait()
	cancel()
	<-ended
	return n
}

// A webhook can tell who has sent a message, of what, and that it has had it before.
func TestAMessageIsSigned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		secret, attempts := []byte("a secret of 24 bytes....."), 0
		var ids []string
		transport := hook(func(_ int, req *http.Request, body []byte) (int, error) {
			ids = append(ids, req.Header.Get("Webhook-Id"))
			if want := "v1," + notify.Sign(secret, req.Header.Get("Webhook-Id"), req.Header.Get("Webhook-Timestamp"), body); req.Header.Get("Webhook-Signature") != want {
				t.Errorf("signed %q, want %q", req.Header.Get("Webhook-Signature"), want)
			}
			var message struct {
				Type string
				Data map[string]string
			}
			if err := json.Unmarshal(body, &message); err != nil || message.Type != "call.unknown" || message.Data["tool_use_id"] == "" || message.Data["tool_name"] != "refund" {
				t.Errorf("got %s, %v", body, err)
			}
			return http.StatusNoContent, nil
		}).transport(&attempts)
		n := tell(t, notify.Options{URL: "http://hook/", Secret: secret, Kinds: []notify.Kind{notify.Unknown}, Transport: transport},
			lost("a"), lost("a"), lost("b"), notify.Event{Kind: notify.Held})
		if attempts != 2 || ids[0] == ids[1] || n.Sent.Load() != 2 {
			t.Errorf("%d requests with the ids %q, want one for each of two calls", attempts, ids)
		}
	})
}

// The example that the libraries of Standard Webhooks are tested with.
func TestTheSignatureIsThatOfStandardWebhooks(t *testing.T) {
	key, err := base64.StdEncoding.DecodeString("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		t.Fatal(err)
	}
	got := notify.Sign(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", []byte(`{"test": 2432232314}`))
	if want := "g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; got != want {
		t.Errorf("signed %s, want %s", got, want)
	}
}

// One that is away is asked again, one that says no is not, and neither without an end.
func TestAWebhookThatDoesNotTakeIt(t *testing.T) {
	for name, c := range map[string]struct {
		answers  hook
		attempts int
		sent     int64
		says     string
	}{
		"away for a while": {func(n int, _ *http.Request, _ []byte) (int, error) {
			if n < 4 {
				return http.StatusBadGateway, nil
			}
			return http.StatusOK, nil
		}, 4, 1, ""},
		"away for good":           {func(int, *http.Request, []byte) (int, error) { return 0, errors.New("refused") }, 24, 0, "refused"},
		"says no":                 {func(int, *http.Request, []byte) (int, error) { return http.StatusUnauthorized, nil }, 1, 0, "401"},
		"leads away":              {func(int, *http.Request, []byte) (int, error) { return http.StatusFound, nil }, 1, 0, "302"},
		"speaks another protocol": {func(int, *http.Request, []byte) (int, error) { return http.StatusSwitchingProtocols, nil }, 1, 0, "101"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				attempts := 0
				n := tell(t, notify.Options{
					URL: "http://hook/s3cr3t", Secret: []byte("s"), Kinds: []notify.Kind{notify.Unknown},
					Transport: c.answers.transport(&attempts), Log: slog.New(slog.NewTextHandler(&log, nil)),
				}, lost("a"))
				if attempts != c.attempts || n.Sent.Load() != c.sent || n.Failed.Load() != 1-c.sent {
					t.Errorf("%d attempts, %d sent, %d failed", attempts, n.Sent.Load(), n.Failed.Load())
				}
				if !strings.Contains(log.String(), c.says) || strings.Contains(log.String(), "s3cr3t") {
					t.Errorf("the log says %s, want %q and no address", &log, c.says)
				}
			})
		})
	}
}

// An event that the webhook does not take holds up no other.
func TestAnEventThatIsRefusedHoldsNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		attempts, began := 0, time.Now()
		refuses := hook(func(_ int, _ *http.Request, body []byte) (int, error) {
			if bytes.Contains(body, []byte("poison")) {
				return http.StatusInternalServerError, nil
			}
			if late := time.Since(began); late > time.Second {
				t.Errorf("another is told after %v", late)
			}
			return http.StatusOK, nil
		})
		n := tell(t, notify.Options{URL: "http://hook", Secret: []byte("s"), Kinds: []notify.Kind{notify.Unknown}, Transport: refuses.transport(&attempts)}, lost("poison"), lost("a"), lost("b"))
		if n.Sent.Load() != 2 || n.Failed.Load() != 1 || attempts != 26 {
			t.Errorf("%d sent, %d failed, after %d attempts", n.Sent.Load(), n.Failed.Load(), attempts)
		}
	})
}

// Half an hour without the webhook loses nothing, whatever the waits are drawn as.
func TestAWebhookThatIsAwayForHalfAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		attempts, back := 0, time.Now().Add(28*time.Minute)
		away := hook(func(int, *http.Request, []byte) (int, error) {
			if time.Now().Before(back) {
				return 0, errors.New("refused")
			}
			return http.StatusOK, nil
		})
		if n := tell(t, notify.Options{URL: "http://hook", Secret: []byte("s"), Kinds: []notify.Kind{notify.Unknown}, Transport: away.transport(&attempts)}, lost("a")); n.Sent.Load() != 1 {
			t.Errorf("not sent, after %d attempts", attempts)
		}
	})
}

// Where a webhook leads to is nobody's concern: it need not even be an address.
func TestAWebhookThatLeadsNowhere(t *testing.T) {
	away := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "http://[::1")
		w.WriteHeader(http.StatusTemporaryRedirect)
	}))
	defer away.Close()
	n := notify.New(notify.Options{URL: away.URL, Secret: []byte("s"), Kinds: []notify.Kind{notify.Unknown}})
	go n.Run(t.Context())
	n.Tell(lost("a"))
	harness.WaitFor(t, "it is final", func() bool { return n.Failed.Load() == 1 })
}

// What cannot wait to be tried again, since too many do, is dropped, as what comes when the queue is full.
func TestTooManyThatAreLateAreDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		attempts := 0
		away := hook(func(int, *http.Request, []byte) (int, error) { return http.StatusBadGateway, nil })
		n := notify.New(notify.Options{URL: "http://hook", Secret: []byte("s"), Kinds: []notify.Kind{notify.Unknown}, Transport: away.transport(&attempts)})
		for round := range 2 {
			for i := range 600 {
				n.Tell(lost(fmt.Sprint(round, i)))
			}
			if round == 0 {
				go n.Run(t.Context())
			}
			synctest.Wait()
		}
		if n.Dropped.Load() != 200 || n.Failed.Load() != 0 {
			t.Errorf("%d dropped, %d failed; want 200 and none", n.Dropped.Load(), n.Failed.Load())
		}
	})
}

// No call waits for a webhook: what is too much is dropped, and counted.
func TestWhatIsTooMuchIsDropped(t *testing.T) {
	n := notify.New(notify.Options{Kinds: []notify.Kind{notify.Unknown}})
	for i := range 1_500 {
		n.Tell(lost(fmt.Sprint(i)))
	}
	if n.Dropped.Load() != 500 {
		t.Errorf("%d dropped, want 500", n.Dropped.Load())
	}
	var nobody *notify.Notifier
	nobody.Tell(lost("a"))
}

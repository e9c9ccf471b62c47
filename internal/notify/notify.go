// Package notify tells a webhook of calls that need a person: of unknown outcome, or held. What
// it sends is signed as Standard Webhooks are (standardwebhooks.com), and no call waits for it.
package notify

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/tool"
	"github.com/sidecall/sidecall/retry"
)

// Kind is what is told of a call.
type Kind string

// What is told.
const (
	Unknown Kind = "call.unknown"
	Held    Kind = "call.held"
)

// Event is a call that needs a person.
type Event struct {
	Kind Kind
	Call tool.CallID
	// Claim names the claim, or the hold: a call is told of once for each.
	Claim, Tool string
	// Why is what the model was told, without what was received.
	Why string
	At  time.Time
}

const (
	// queueLength is how many events wait; the next one is dropped, and counted.
	queueLength = 1_000
	// rememberedEvents is how many are known to have been told.
	rememberedEvents = 10_000
	// perAttempt bounds one request.
	perAttempt = 10 * time.Second
)

// patience is how a webhook is asked again: for an hour or so, as each wait is half its ceiling
// on average.
var patience = retry.Policy{MaxAttempts: 24, Base: time.Second, Multiplier: 2, Max: 10 * time.Minute}

// Options are where to, and what.
type Options struct {
	URL    string
	Secret []byte
	Kinds  []Kind
	// Transport asks, and follows no redirects; nil is http.DefaultTransport.
	Transport http.RoundTripper
	Log       *slog.Logger
}

// Notifier tells a webhook of events, one at a time. A nil one tells nobody.
type Notifier struct {
	options Options
	queue   chan Event
	// Sent, Failed and Dropped count the events since the start.
	Sent, Failed, Dropped atomic.Int64
}

// New returns a notifier. It tells nothing until Run.
func New(options Options) *Notifier {
	if options.Transport == nil {
		options.Transport = http.DefaultTransport
	}
	if options.Log == nil {
		options.Log = slog.New(slog.DiscardHandler)
	}
	return &Notifier{options: options, queue: make(chan Event, queueLength)}
}

// Tell takes an event, and never waits.
func (n *Notifier) Tell(e Event) {
	if n == nil || !slices.Contains(n.options.Kinds, e.Kind) {
		return
	}
	select {
	case n.queue <- e:
	default:
		n.Dropped.Add(1)
	}
}

// TellOf tells of a call with a record, if a person is needed for it. A hold is named by its owner, since
// it takes no epoch.
func (n *Notifier) TellOf(key tool.CallID, record *dedupe.Record, why string) {
	event := Event{Call: key, Tool: record.Tool, Why: why, At: time.Now()}
	switch {
	case record.State == dedupe.Unknown:
		event.Kind, event.Claim = Unknown, strconv.FormatInt(record.Epoch, 10)
	case record.State == dedupe.Held && !record.Approved():
		event.Kind, event.Claim = Held, record.Owner
	default:
		return
	}
	n.Tell(event)
}

// pending is an event that the webhook has not taken yet.
type pending struct {
	Event

	id       string
	attempts int
	next     time.Time
}

// Run tells what comes until ctx ends: what waits then is not told.
func (n *Notifier) Run(ctx context.Context) {
	told, oldest := map[string]bool{}, []string{}
	var late []pending
	for {
		p, ok := n.next(ctx, &late)
		switch {
		case !ok:
			return
		case p.attempts > 0:
		case told[p.id]:
			continue
		default:
			if told[p.id], oldest = true, append(oldest, p.id); len(oldest) > rememberedEvents {
				delete(told, oldest[0])
				oldest = oldest[1:]
			}
		}
		again, err := n.post(ctx, p.id, p.body())
		switch p.attempts++; {
		case err == nil:
			n.Sent.Add(1)
		case !again || p.attempts == patience.MaxAttempts:
			delete(told, p.id) // it may be told of once more when it is found again
			n.Failed.Add(1)
			n.options.Log.Warn("notify", "event", string(p.Kind), "conversation", p.Call.Conversation, "turn", p.Call.Turn, "tool_use_id", p.Call.ID,
				"attempts", p.attempts, "error", err)
		case len(late) == queueLength:
			delete(told, p.id) // likewise
			n.Dropped.Add(1)
		default:
			p.next = time.Now().Add(rand.N(patience.Ceiling(p.attempts) + 1))
			late = append(late, p)
		}
	}
}

// next is the event that is told next: one that was not tried yet, or else a late one whose time has
// come, so that none waits for another's. It is false when ctx has ended.
func (n *Notifier) next(ctx context.Context, late *[]pending) (pending, bool) {
	select {
	case e := <-n.queue:
		return pending{Event: e, id: e.id()}, ctx.Err() == nil
	default:
	}
	var due <-chan time.Time
	if len(*late) > 0 {
		slices.SortFunc(*late, func(a, b pending) int { return a.next.Compare(b.next) })
		timer := time.NewTimer(time.Until((*late)[0].next))
		defer timer.Stop()
		due = timer.C
	}
	select {
	case e := <-n.queue:
		return pending{Event: e, id: e.id()}, true
	case <-due:
		first := (*late)[0]
		*late = slices.Delete(*late, 0, 1)
		return first, true
	case <-ctx.Done():
		return pending{}, false
	}
}

// post asks once. again says that it may help to ask once more.
func (n *Notifier) post(ctx context.Context, id string, body []byte) (again bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, perAttempt)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, n.options.URL, bytes.NewReader(body))
	if err != nil {
		return false, fmt.Errorf("notify.url: %w", err)
	}
	at := strconv.FormatInt(time.Now().Unix(), 10)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Webhook-Id", id)
	req.Header.Set("Webhook-Timestamp", at)
	req.Header.Set("Webhook-Signature", "v1,"+Sign(n.options.Secret, id, at, body))
	res, err := n.options.Transport.RoundTrip(req)
	if err != nil {
		return true, fmt.Errorf("the webhook does not answer: %w", err)
	}
	if err := res.Body.Close(); err != nil {
		return true, fmt.Errorf("the webhook does not answer: %w", err)
	}
	switch {
	case res.StatusCode/100 == http.StatusOK/100:
		return false, nil
	case res.StatusCode == http.StatusTooManyRequests || res.StatusCode >= http.StatusInternalServerError:
		return true, fmt.Errorf("the webhook answers %d", res.StatusCode)
	default:
		return false, fmt.Errorf("the webhook answers %d", res.StatusCode)
	}
}

// Sign is the signature of a message, as Standard Webhooks have it: base64 of the HMAC-SHA256 of its
// id, its time in seconds since 1970 and its body, with a point between.
func Sign(secret []byte, id, at string, body []byte) string {
	mac := hmac.New(sha256.New, secret)
	_, _ = fmt.Fprintf(mac, "%s.%s.%s", id, at, body) // a hash never fails
	return base64.StdEncoding.EncodeToString(mac.Sum(nil))
}

// id is the same for an event from whichever sidecar it comes.
func (e *Event) id() string {
	sum := sha256.New()
	for _, part := range [...]string{string(e.Kind), e.Call.Tenant, e.Call.Conversation, e.Call.Turn, e.Call.ID, e.Claim} {
		var size [8]byte
		binary.BigEndian.PutUint64(size[:], uint64(len(part)))
		_, _ = sum.Write(size[:]) // a hash never fails
		_, _ = sum.Write([]byte(part))
	}
	return "msg_" + base64.RawURLEncoding.EncodeToString(sum.Sum(nil)[:18])
}

// body is what a webhook gets of an event: which call, and why; neither arguments nor results.
func (e *Event) body() []byte {
	text, _ := json.Marshal(map[string]any{ // texts alone cannot fail
		"type": e.Kind, "timestamp": e.At.UTC().Format(time.RFC3339Nano),
		"data": map[string]string{
			"tenant": e.Call.Tenant, "conversation_id": e.Call.Conversation, "turn_id": e.Call.Turn, "tool_use_id": e.Call.ID,
			"tool_name": e.Tool, "why": e.Why,
		},
	})
	return text
}

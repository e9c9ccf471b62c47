//go:build prove

package transports

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"golang.org/x/sync/errgroup"

	"github.com/sidecall/sidecall/test/prove/proof"
	"github.com/sidecall/sidecall/test/testkit/upstream"
)

// cutAt is where the stream of a call is cut, by turns.
type cutAt int

const (
	inTheRequest cutAt = iota
	atWork
	inTheAnswer
	cuts
)

// till takes payments that come over MCP. A lane is cut off once in each of its calls.
type till struct {
	ledger *upstream.Ledger
	lanes  []*lane
}

func openTill() *till { return &till{ledger: upstream.NewLedger()} }

// add opens a lane.
func (c *till) add(l *lane) *lane {
	l.number = len(c.lanes)
	c.lanes = append(c.lanes, l)
	return l
}

// ServeHTTP takes POST /LANE/KEY, and is asked at /LANE/KEY/CUT whether a server is to be cut there. Where the
// lane cuts nothing off itself, the server does: it is told 410.
func (c *till) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/"), "/")
	number, err := strconv.Atoi(parts[0])
	if err != nil || len(parts) < 2 {
		http.NotFound(w, r)
		return
	}
	l, key := c.lanes[number], parts[1]
	if len(parts) > 2 {
		if at, err := strconv.Atoi(parts[2]); err == nil && l.fromServer && l.fires(cutAt(at), []byte(key)) {
			w.WriteHeader(http.StatusGone)
		}
		return
	}
	if err := c.ledger.Write(key); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	if l.fires(atWork, nil) {
		if l.fromServer {
			w.WriteHeader(http.StatusGone)
			return
		}
		l.cut()
	}
	_, _ = fmt.Fprint(w, "paid ", key)
}

// lane is one client at a time, which pays and is cut off.
type lane struct {
	number int
	// open connects a client, which has no memory of the one before.
	open func(ctx context.Context, l *lane) (*mcp.ClientSession, error)
	// cut breaks the stream to the client while its call is at work.
	cut func()
	// fromServer: it is the server that is cut off. Then it may be that nobody knows of a payment.
	fromServer bool

	session *mcp.ClientSession

	mu   sync.Mutex
	next cutAt
	key  string // of the call to cut off; empty when that is done

	faults, repeated atomic.Int64
}

// arm has the next call cut off.
func (l *lane) arm(key string, at cutAt) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.key, l.next = key, at
}

// fires reports whether a call is to be cut off here, once.
func (l *lane) fires(at cutAt, chunk []byte) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.key == "" || l.next != at || chunk != nil && !bytes.Contains(chunk, []byte(l.key)) {
		return false
	}
	l.key = ""
	l.faults.Add(1)
	return true
}

// connect opens a session.
func (l *lane) connect(ctx context.Context) (err error) {
	l.close()
	l.session, err = l.open(ctx, l)
	return err
}

func (l *lane) close() {
	if l.session != nil {
		_ = l.session.Close() // it may be broken
	}
	l.session = nil
}

// pay makes one call, and sends it again, with another id of JSON-RPC, until it is answered. A client of the
// revision without sessions goes on as it is; one with a session opens another.
func (l *lane) pay(ctx context.Context, key string) (string, error) {
	for {
		res, err := l.session.CallTool(ctx, &mcp.CallToolParams{
			Name: "pay", Arguments: map[string]any{"lane": l.number, "key": key},
			Meta: mcp.Meta{"dev.sidecall/toolUseId": key, "dev.sidecall/conversationId": "prove"},
		})
		if err == nil {
			text, _ := res.Content[0].(*mcp.TextContent)
			if !l.fromServer || strings.Contains(text.Text, "paid "+key) || strings.Contains(text.Text, "OUTCOME_UNKNOWN") {
				return text.Text, nil
			}
		}
		l.repeated.Add(1)
		if ctx.Err() != nil {
			return "", errors.Join(ctx.Err(), err)
		}
		if err := l.connect(ctx); err != nil {
			return "", err
		}
	}
}

// paysCutOff pays and is cut off. What is answered after the server was cut off is sent again to another process,
// and answered alike.
func (l *lane) paysCutOff(ctx context.Context, key string, at cutAt) (said string, err error) {
	l.arm(key, at)
	if l.session == nil {
		err = l.connect(ctx)
	}
	if err == nil {
		said, err = l.pay(ctx, key)
	}
	if err != nil || !l.fromServer {
		return said, err
	}
	l.repeated.Add(1)
	if err := l.connect(ctx); err != nil {
		return "", err
	}
	again, err := l.pay(ctx, key)
	if strings.Contains(again, "OUTCOME_UNKNOWN") != strings.Contains(said, "OUTCOME_UNKNOWN") {
		return again, fmt.Errorf("answered %s, and then %s", said, again)
	}
	return said, err
}

// isPaidOnce makes so many calls, each of which is cut off once, and reports the row.
func (c *till) isPaidOnce(t *testing.T, fault string, calls int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), proof.Pick(2*patience, 10*patience))
	defer cancel()
	var group errgroup.Group
	var violations, unknown, unpaid atomic.Int64
	for i, l := range c.lanes {
		group.Go(func() error {
			defer l.close()
			for n := i; n < calls; n += len(c.lanes) {
				key := fmt.Sprintf("key-%d-", n)
				said, err := l.paysCutOff(ctx, key, cutAt(n/len(c.lanes))%cuts)
				if err != nil {
					return fmt.Errorf("%s: %w", key, err)
				}
				ran, told := c.ledger.Executions(key), strings.Contains(said, "paid "+key)
				switch {
				case ran == 1 && told:
				case l.fromServer && ran <= 1 && !told:
					unknown.Add(1)
					unpaid.Add(int64(1 - ran))
				default:
					violations.Add(1)
					t.Errorf("%s: %d payments, answered %q", key, ran, said)
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	var faults, repeated int64
	for _, l := range c.lanes {
		faults, repeated = faults+l.faults.Load(), repeated+l.repeated.Load()
	}
	if faults != int64(calls) || repeated < faults || int64(c.ledger.Total()) != int64(calls)-unpaid.Load() {
		violations.Add(1)
		t.Errorf("of %d calls %d were cut off and %d sent again; %d payments, %d unknown", calls, faults, repeated, c.ledger.Total(), unknown.Load())
	}
	figure := fmt.Sprintf("%d payments, %d requests sent again", c.ledger.Total(), repeated)
	if n := unknown.Load(); n > 0 {
		figure += fmt.Sprintf(", %d unknown", n)
	}
	proof.Report(t, proof.Row{Fault: fault, Store: "embedded", Runs: int(faults), Violations: int(violations.Load()), Figure: figure})
}

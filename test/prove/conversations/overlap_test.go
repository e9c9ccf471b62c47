//go:build prove

package conversations

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/prove/proof"
	"github.com/sidecall/sidecall/test/testkit/harness"
	"github.com/sidecall/sidecall/test/testkit/redisserver"
	"github.com/sidecall/sidecall/test/testkit/upstream"
)

// stall holds each order until it is let go, then takes the money, and loses the answer of
// those that are to be lost.
type stall struct {
	*httptest.Server

	ledger *upstream.Ledger
	mu     sync.Mutex
	orders map[string]*order
}

type order struct {
	lost          bool
	arrived, open chan struct{}
	once, twice   sync.Once
}

func (o *order) let() { o.twice.Do(func() { close(o.open) }) }

func openStall(t *testing.T) *stall {
	s := &stall{ledger: upstream.NewLedger(), orders: map[string]*order{}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := strings.TrimPrefix(r.URL.Path, "/pay/")
		o := s.order(id)
		o.once.Do(func() { close(o.arrived) })
		<-o.open
		if err := s.ledger.Write(id); err != nil {
			t.Error(err)
		}
		if o.lost {
			panic(http.ErrAbortHandler)
		}
		fmt.Fprint(w, "paid ", id)
	}))
	t.Cleanup(func() {
		s.mu.Lock()
		for _, o := range s.orders {
			o.let()
		}
		s.mu.Unlock()
		s.Close()
	})
	return s
}

func (s *stall) order(id string) *order {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.orders[id] == nil {
		s.orders[id] = &order{arrived: make(chan struct{}), open: make(chan struct{})}
	}
	return s.orders[id]
}

func (s *stall) config(store string) string {
	config := fmt.Sprintf("store: %s\nlease: 10s\nprofiles: {all: {loop_guard: {off: true}}}\ndefault_profile: all\n"+
		"backends: {shop: {http: {base_url: %q, allow_private: true}, max_in_flight: 256, breaker: {failures: 100000}}}\n"+
		"defaults: {retry: {max_attempts: 1}}\ntools:\n", store, s.URL)
	for _, effect := range payEffects {
		config += fmt.Sprintf("  %s:\n    backend: shop\n    effect: %s\n    http: {method: POST, path: \"/pay/{order}\"%s}\n"+
			"    input_schema: {type: object, properties: {order: {type: string}}, required: [order]}\n",
			effect, effect, map[string]string{"keyed": ", idempotency_header: Idempotency-Key"}[effect])
	}
	return config
}

var payEffects = []string{"non_idempotent", "keyed", "idempotent", "read_only"}

// overlap is one conversation that two loops go on with.
type overlap struct {
	stall  *stall
	id     string // of the conversation; its first call is id/1
	effect string
	// older and newer are the sidecars of the two loops.
	older, newer grpc.ClientConnInterface

	started  chan struct{}
	result   *sidecallv1.ExecuteToolResponse
	resumed  *sidecallv1.ResumeConversationResponse
	version  int64
	next     int // calls of the model so far
	violated func(format string, args ...any)
}

func (o *overlap) call(n int) string { return fmt.Sprintf("%s-%d", o.id, n) }

func (o *overlap) request(n int) *sidecallv1.ExecuteToolRequest {
	return &sidecallv1.ExecuteToolRequest{
		ConversationId: o.id, TurnId: "t", ToolUseId: o.call(n), ToolName: o.effect, ArgumentsJson: fmt.Sprintf(`{"order":%q}`, o.call(n)),
	}
}

func (o *overlap) append(ctx context.Context, conn grpc.ClientConnInterface, version int64, messages ...string) (int64, error) {
	res, err := sidecallv1.NewConversationServiceClient(conn).AppendMessages(ctx, &sidecallv1.AppendMessagesRequest{
		ConversationId: o.id, Provider: "openai-responses", TurnId: "t", ExpectedVersion: version, MessagesJson: messages, AppendId: fmt.Sprint(rand.Uint64()),
	})
	return res.GetVersion(), err
}

func (o *overlap) asks(n int) string {
	return fmt.Sprintf(`{"type":"function_call","call_id":%q,"name":%q,"arguments":"{\"order\":\"%s\"}"}`, o.call(n), o.effect, o.call(n))
}

func says(id, text string) string {
	quoted, _ := json.Marshal(text)
	return fmt.Sprintf(`{"type":"function_call_output","call_id":%q,"output":%s}`, id, quoted)
}

// begin is the older loop up to where it has appended its call.
func (o *overlap) begin(ctx context.Context) error {
	var err error
	o.next = 1
	o.version, err = o.append(ctx, o.older, 0, o.asks(1))
	return err
}

// refused are the answers of an append that another loop, or a record, stands in the way of.
func refused(err error) bool {
	return status.Code(err) == codes.Aborted || status.Code(err) == codes.FailedPrecondition
}

// steps of the older loop: its request is sent, and is at the upstream or answered; it
// ends; its result is appended.
func (o *overlap) start(ctx context.Context) {
	o.started = make(chan struct{})
	go func() {
		defer close(o.started)
		res, err := sidecallv1.NewToolServiceClient(o.older).ExecuteTool(ctx, o.request(1))
		if err != nil && ctx.Err() == nil {
			o.violated("%s: the older loop's request: %v", o.id, err)
		}
		o.result = res
	}()
	select {
	case <-o.started:
	case <-o.stall.order(o.call(1)).arrived:
	}
}

func (o *overlap) finish(context.Context) {
	o.stall.order(o.call(1)).let()
	<-o.started
}

func (o *overlap) keep(ctx context.Context) {
	if _, err := o.append(ctx, o.older, 1, says(o.call(1), o.result.GetContent())); err != nil && !refused(err) {
		o.violated("%s: the older loop's append: %v", o.id, err)
	}
}

// steps of the newer loop.
func (o *overlap) resume(ctx context.Context) {
	var err error
	if o.resumed, err = sidecallv1.NewConversationServiceClient(o.newer).ResumeConversation(ctx, &sidecallv1.ResumeConversationRequest{ConversationId: o.id}); err != nil {
		o.violated("%s: resumed: %v", o.id, err)
	}
}

// answer appends what the sidecar says of the open calls. While one of them runs it is
// waited for, and the loop has not all the time.
func (o *overlap) answer(ctx context.Context) {
	if len(o.resumed.GetPending()) == 0 {
		return
	}
	hurry, cancel := context.WithTimeout(ctx, 150*time.Millisecond)
	defer cancel()
	version, err := o.append(hurry, o.newer, o.resumed.GetVersion(), o.resumed.GetAnswersJson()...)
	switch {
	case err == nil:
		o.version = version
		if nothingRan(o.resumed.GetAnswersJson()[0]) {
			o.again(ctx)
		}
	case !refused(err) && status.Code(err) != codes.DeadlineExceeded:
		o.violated("%s: answered: %v", o.id, err)
	}
	o.resumed = nil
}

// again is the model, which calls anew what was not run.
func (o *overlap) again(ctx context.Context) {
	o.next++
	id := o.call(o.next)
	o.stall.order(id).let()
	version, err := o.append(ctx, o.newer, o.version, o.asks(o.next))
	if refused(err) {
		return
	}
	var res *sidecallv1.ExecuteToolResponse
	if err == nil {
		res, err = sidecallv1.NewToolServiceClient(o.newer).ExecuteTool(ctx, o.request(o.next))
	}
	if err == nil {
		_, err = o.append(ctx, o.newer, version, says(id, res.GetContent()))
	}
	if err != nil && !refused(err) {
		o.violated("%s: called again: %v", o.id, err)
	}
}

func nothingRan(text string) bool { return strings.Contains(text, `CANCELLED`) }

// end is a loop that goes on alone, until nothing is open; then whatever was sent is sent
// once more. What the conversation says is compared with what was done.
func (o *overlap) end(ctx context.Context) {
	for range 10 {
		if o.resume(ctx); o.resumed == nil || len(o.resumed.GetPending()) == 0 {
			break
		}
		o.answer(ctx)
	}
	for n := 1; n <= o.next; n++ {
		o.stall.order(o.call(n)).let()
		if _, err := sidecallv1.NewToolServiceClient(o.older).ExecuteTool(ctx, o.request(n)); err != nil {
			o.violated("%s: sent late: %v", o.id, err)
		}
	}
	kept, err := sidecallv1.NewConversationServiceClient(o.newer).LoadConversation(ctx, &sidecallv1.LoadConversationRequest{ConversationId: o.id})
	if err != nil {
		o.violated("%s: %v", o.id, err)
		return
	}
	for n := 1; n <= o.next; n++ {
		o.check(n, kept.GetMessagesJson())
	}
}

func (o *overlap) check(n int, messages []string) {
	i := slices.IndexFunc(messages, func(m string) bool {
		return strings.Contains(m, "call_output") && strings.Contains(m, `"`+o.call(n)+`"`)
	})
	if i < 0 {
		if slices.ContainsFunc(messages, func(m string) bool { return strings.Contains(m, `"call_id":"`+o.call(n)+`"`) }) {
			o.violated("%s: the call %d has no answer: %s", o.id, n, messages)
		}
		return
	}
	ran, most := o.stall.ledger.Executions(o.call(n)), 1
	if o.effect != "non_idempotent" {
		most = 100
	}
	switch {
	case strings.Contains(messages[i], "paid "+o.call(n)) && (ran < 1 || ran > most),
		nothingRan(messages[i]) && ran != 0,
		ran > most:
		o.violated("%s: it was done %d times, and the conversation says %s", o.id, ran, messages[i])
	}
}

// merges are all orders of two loops' steps.
func merges(a, b []func(*overlap, context.Context)) (all [][]func(*overlap, context.Context)) {
	if len(a) == 0 || len(b) == 0 {
		return [][]func(*overlap, context.Context){append(slices.Clone(a), b...)}
	}
	for _, rest := range merges(a[1:], b) {
		all = append(all, append([]func(*overlap, context.Context){a[0]}, rest...))
	}
	for _, rest := range merges(a, b[1:]) {
		all = append(all, append([]func(*overlap, context.Context){b[0]}, rest...))
	}
	return all
}

// overlaps is one store with two loops' sidecars.
type overlaps struct {
	t          *testing.T
	stall      *stall
	older      *harness.Sidecar
	newer      *harness.Sidecar
	mu         sync.Mutex
	runs       int
	violations int
}

func (all *overlaps) violated(format string, args ...any) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.violations++; all.violations <= 10 {
		all.t.Errorf(format, args...)
	}
}

// run has two loops go on with a conversation of their own.
func (all *overlaps) run(effect string, lost bool, loops func(ctx context.Context, o *overlap)) {
	all.mu.Lock()
	all.runs++
	o := &overlap{
		stall: all.stall, id: fmt.Sprint("c", all.runs), effect: effect, older: all.older.Conn, newer: all.newer.Conn, violated: all.violated,
	}
	all.mu.Unlock()
	all.stall.order(o.call(1)).lost = lost
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := o.begin(ctx); err != nil {
		all.violated("%s: %v", o.id, err)
		return
	}
	loops(ctx, o)
	o.end(ctx)
}

// everyOrder runs all orders of the steps of both loops.
func (all *overlaps) everyOrder() {
	orders := merges(
		[]func(*overlap, context.Context){(*overlap).start, (*overlap).finish, (*overlap).keep},
		[]func(*overlap, context.Context){(*overlap).resume, (*overlap).answer, (*overlap).resume, (*overlap).answer},
	)
	for _, effect := range payEffects {
		for _, lost := range []bool{false, true} {
			for _, order := range orders {
				all.run(effect, lost, func(ctx context.Context, o *overlap) {
					for _, step := range order {
						step(o, ctx)
					}
				})
			}
		}
	}
}

// atOnce runs both loops at the same time.
func (all *overlaps) atOnce(times int) {
	for i := range times {
		all.run(payEffects[i%len(payEffects)], i%8 > 3, func(ctx context.Context, o *overlap) {
			o.stall.order(o.call(1)).let()
			var both sync.WaitGroup
			both.Go(func() { o.start(ctx); o.finish(ctx); o.keep(ctx) })
			both.Go(func() { o.resume(ctx); o.answer(ctx) })
			both.Wait()
		})
	}
}

// stopped has the older loop killed with its request in the socket of a sidecar that is
// stopped: it is read when that goes on, after the newer loop has answered, or beside it.
func (all *overlaps) stopped(times int) {
	for i := range times {
		all.run(payEffects[i%len(payEffects)], false, func(ctx context.Context, o *overlap) {
			conn, err := grpc.NewClient("passthrough:///"+all.older.Addr, grpc.WithTransportCredentials(insecure.NewCredentials()))
			if err != nil {
				all.violated("%v", err)
				return
			}
			conn.Connect()
			if _, err := sidecallv1.NewToolServiceClient(conn).ListTools(ctx, &sidecallv1.ListToolsRequest{}); err != nil {
				all.violated("%v", err)
			}
			o.stall.order(o.call(1)).let()
			all.older.Signal(syscall.SIGSTOP)
			sent, kill := context.WithCancel(ctx)
			stream, err := conn.NewStream(sent, &grpc.StreamDesc{}, sidecallv1.ToolService_ExecuteTool_FullMethodName)
			if err == nil {
				err = stream.SendMsg(o.request(1))
			}
			if err == nil {
				err = stream.CloseSend()
			}
			if err != nil {
				all.violated("%s: sent to a stopped sidecar: %v", o.id, err)
			}
			if all.newer != all.older {
				o.resume(ctx)
				o.answer(ctx)
			}
			all.older.Signal(syscall.SIGCONT)
			if all.newer == all.older {
				o.resume(ctx)
				o.answer(ctx)
			}
			kill()
			if err := conn.Close(); err != nil {
				all.violated("%v", err)
			}
		})
	}
}

// Two loops go on with one conversation, at every interleaving: what the conversation says
// of a call is what has happened, and stays so when its request arrives late.
func TestOverlappingLoops(t *testing.T) {
	for _, store := range []string{"embedded", "redis"} {
		all := &overlaps{t: t, stall: openStall(t)}
		settings := "{embedded: {path: ./sidecall.db}}"
		if store == "redis" {
			settings = fmt.Sprintf("{redis: {addrs: [%q]}}", redisserver.Start(t, redisserver.Options{}).Addr)
		}
		all.older = harness.Start(t, all.stall.config(settings))
		all.newer = all.older
		if store == "redis" {
			all.newer = harness.Start(t, all.stall.config(settings))
		}
		all.everyOrder()
		orders := all.runs
		all.atOnce(proof.Runs(200, 4000))
		atOnce := all.runs - orders
		all.stopped(proof.Runs(8, 40))
		proof.Report(t, proof.Row{
			Fault: "two loops on one conversation, at every interleaving", Store: store, Runs: all.runs, Violations: all.violations,
			Figure: fmt.Sprintf("%d in order, %d at once, %d with a stopped sidecar; %d effects", orders, atOnce, all.runs-orders-atOnce, all.stall.ledger.Total()),
		})
		all.older.Stop()
		all.newer.Stop()
	}
}

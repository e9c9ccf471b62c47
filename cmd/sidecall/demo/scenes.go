package demo

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

const (
	payment = `{"order_id":"A-7","cents":4200}`
	// late is a payment of another order, so that one charge of each is right.
	late = `{"order_id":"A-12","cents":990}`
)

func throws(ctx context.Context, s *stage) error {
	res, err := s.call(ctx, "toolu_throws", "get_report", "")
	if err != nil {
		return err
	}
	s.promise(res.GetIsError() && res.GetError().GetHint() != "", "the run goes on: the failure is a result with a hint")
	s.promise(!strings.Contains(res.GetContent(), "Traceback") && !strings.Contains(res.GetContent(), "secret.py"),
		"no stack trace and no file of the upstream reaches the model")
	return nil
}

func noise(ctx context.Context, s *stage) error {
	res, err := s.call(ctx, "toolu_noise", "get_temperature", "")
	if err != nil {
		return err
	}
	requests, _ := s.upstream("/noisy")
	s.promise(!res.GetIsError() && requests == 3, "two failures were absorbed; the model saw none of them")
	return nil
}

func lostAcknowledgement(ctx context.Context, s *stage) error {
	res, err := s.call(ctx, "toolu_refund", "refund", payment)
	if err != nil {
		return err
	}
	requests, effects := s.upstream("/refunds")
	s.promise(!res.GetIsError() && requests == 2 && effects == 1, "sent again with the same key, refunded once")
	return nil
}

func lostCharge(ctx context.Context, s *stage) error {
	first, err := s.call(ctx, "toolu_charge", "charge", payment)
	if err != nil {
		return err
	}
	again, err := s.call(ctx, "toolu_charge", "charge", payment)
	if err != nil {
		return err
	}
	requests, effects := s.upstream("/charges")
	s.promise(first.GetError().GetCode() == "OUTCOME_UNKNOWN" && again.GetError().GetCode() == "OUTCOME_UNKNOWN",
		"it says that it does not know, and names the tool that can tell")
	s.promise(requests == 1 && effects == 1, "charged once, whatever was sent again")
	return nil
}

func duplicate(ctx context.Context, s *stage) error {
	_, before := s.shop.count("/refunds")
	arguments := `{"order_id":"A-8","cents":100}`
	results := make([]*sidecallv1.ExecuteToolResponse, 16)
	errs := make([]error, len(results))
	var wg sync.WaitGroup
	for i := range results {
		wg.Go(func() {
			results[i], errs[i] = s.sidecar.client.ExecuteTool(ctx, request("toolu_twin", "refund", arguments))
		})
	}
	wg.Wait()
	s.calls += len(results)
	same, replayed := true, 0
	for i, res := range results {
		if errs[i] != nil {
			return errs[i]
		}
		same = same && res.GetContent() == results[0].GetContent()
		if res.GetReplayed() {
			replayed++
		}
	}
	s.show("toolu_twin ×16 at the same time", "refund", arguments, results[0])
	_, after := s.upstream("/refunds")
	s.promise(after-before == 1 && same && replayed == len(results)-1,
		"one ran, %d got its result word for word", replayed)
	return nil
}

func unknownTool(ctx context.Context, s *stage) error {
	res, err := s.call(ctx, "toolu_typo", "get_ordr", `{"order_id":"A-7"}`)
	if err != nil {
		return err
	}
	_, name, ok := strings.Cut(res.GetError().GetHint(), `Did you mean "`)
	name, _, closed := strings.Cut(name, `"?`)
	s.promise(res.GetError().GetCode() == "UNKNOWN_TOOL" && ok && closed, "the run goes on; the nearest name is in the hint")
	res, err = s.call(ctx, "toolu_typo_2", name, `{"order_id":"A-7"}`)
	if err != nil {
		return err
	}
	s.promise(!res.GetIsError(), "the name from the hint works")
	return nil
}

func hugeOutput(ctx context.Context, s *stage) error {
	res, err := s.call(ctx, "toolu_export", "export_orders", "")
	if err != nil {
		return err
	}
	cut := res.GetTruncation()
	s.promise(len([]rune(res.GetContent())) <= 8000 && cut.GetOutputRef() != "" && json.Valid([]byte(res.GetContent())),
		"cut from %d to %d characters, still valid JSON, and it says so", cut.GetOriginalChars(), len([]rune(res.GetContent())))
	var whole strings.Builder
	pages := 0
	for offset := int64(0); ; pages++ {
		page, err := s.sidecar.client.ReadOutput(ctx, &sidecallv1.ReadOutputRequest{OutputRef: cut.GetOutputRef(), ConversationId: "demo", Offset: offset, Limit: 500_000})
		if err != nil {
			return err
		}
		whole.WriteString(page.GetContent())
		if offset = page.GetNextOffset(); offset >= page.GetTotalChars() {
			break
		}
	}
	var export struct {
		Orders []json.RawMessage `json:"orders"`
	}
	err = json.Unmarshal([]byte(whole.String()), &export)
	s.promise(err == nil && len(export.Orders) == exported, "nothing is lost: %d pages hold all %d orders", pages+1, len(export.Orders))
	found, err := s.call(ctx, "toolu_page", "read_output", `{"output_ref":"`+cut.GetOutputRef()+`","pattern":"A-31337\\b","limit":200}`)
	if err != nil {
		return err
	}
	s.promise(!found.GetIsError(), "the model itself can search and page with read_output")
	return nil
}

// counted writes how often each code was answered, the most frequent first.
func counted(codes map[string]int) string {
	names := slices.SortedFunc(maps.Keys(codes), func(a, b string) int { return cmp.Or(codes[b]-codes[a], strings.Compare(a, b)) })
	for i, name := range names {
		names[i] = fmt.Sprintf("%d %s", codes[name], name)
	}
	return strings.Join(names, ", ")
}

func deadUpstream(ctx context.Context, s *stage) error {
	var last *sidecallv1.ExecuteToolResponse
	codes := map[string]int{}
	attempts := int32(0)
	for i := range 20 {
		req := request("toolu_dead_"+string(rune('a'+i)), "get_stock", "")
		req.ConversationId = fmt.Sprintf("agent-%d", i) // or they were one that goes round in circles
		s.calls++
		res, err := s.sidecar.client.ExecuteTool(ctx, req)
		if err != nil {
			return err
		}
		if i == 0 {
			s.show("toolu_dead_a", "get_stock", "", res)
		}
		codes[res.GetError().GetCode()]++
		attempts += res.GetRecovery().GetAttempts()
		last = res
	}
	s.show("toolu_dead_t", "get_stock", "", last)
	s.promise(last.GetError().GetCode() == "CIRCUIT_OPEN" && attempts <= 6,
		"20 agents made %d attempts at the dead upstream: %s", attempts, counted(codes))

	listener, err := listen(s.dead)
	if err != nil {
		return err
	}
	revived := &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		answer(w, http.StatusOK, `{"stock":12}`)
	})}
	go func() { _ = revived.Serve(listener) }() // ends with Close below
	defer func() { _ = revived.Close() }()
	wait := last.GetRecovery().GetRetryAfter().AsDuration() + 50*time.Millisecond
	s.printf("   …      the upstream comes back; the model waits the %s that it was told\n", wait.Round(10*time.Millisecond))
	select {
	case <-time.After(wait):
	case <-ctx.Done():
		return ctx.Err()
	}
	res, err := s.call(ctx, "toolu_back", "get_stock", "")
	if err != nil {
		return err
	}
	s.promise(!res.GetIsError(), "it recovers by itself")
	return nil
}

func crash(ctx context.Context, s *stage) error {
	done, err := s.call(ctx, "toolu_before", "get_order", `{"order_id":"A-9"}`)
	if err != nil {
		return err
	}
	lost := make(chan error, 1)
	go func() {
		_, err := s.sidecar.client.ExecuteTool(ctx, request("toolu_slow", "charge_slowly", late))
		lost <- err
	}()
	s.calls++
	select {
	case <-s.shop.charging:
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := s.sidecar.kill(); err != nil {
		return err
	}
	s.printf("   kill   -9 while charge_slowly was running; the agent saw: %v\n", <-lost)
	if err := s.sidecar.start(ctx); err != nil {
		return err
	}
	s.printf("   …      restarted; the agent sends the turn again, both calls with their old ids\n")
	again, err := s.call(ctx, "toolu_before", "get_order", `{"order_id":"A-9"}`)
	if err != nil {
		return err
	}
	s.promise(again.GetReplayed() && again.GetContent() == done.GetContent(), "what was done is replayed")
	slow, err := s.call(ctx, "toolu_slow", "charge_slowly", late)
	if err != nil {
		return err
	}
	requests, effects := s.upstream("/slow-charges")
	s.promise(slow.GetError().GetCode() == "OUTCOME_UNKNOWN" && requests == 1 && effects == 1,
		"what may have happened is not sent again: charged once")
	verify := slow.GetRecovery().GetAllowedAlternatives()
	if len(verify) == 0 {
		s.promise(false, "the hint names the tool that can tell")
		return nil
	}
	checked, err := s.call(ctx, "toolu_verify", verify[0], `{"order_id":"A-12"}`)
	if err != nil {
		return err
	}
	s.promise(strings.Contains(checked.GetContent(), `"charges":1`), "%s tells that the charge went through", verify[0])
	return nil
}

// malformed lets a program that reads nothing but the five fields repair the
// call, as a model would.
func malformed(ctx context.Context, s *stage) error {
	sent := `{"title":"Refund is late","prioritty":"P1","due":"21.11.2026"}`
	first, err := s.call(ctx, "toolu_ticket", "create_ticket", sent)
	if err != nil {
		return err
	}
	requests, _ := s.shop.count("/tickets")
	s.promise(first.GetError().GetCode() == "INVALID_ARGS" && requests == 0, "refused before anything was sent, every violation at once")
	for try := 2; try <= 3 && first.GetIsError(); try++ {
		if sent, err = repaired(sent, first.GetViolations()); err != nil {
			return err
		}
		if first, err = s.call(ctx, "toolu_ticket_"+strconv.Itoa(try), "create_ticket", sent); err != nil {
			return err
		}
	}
	_, effects := s.upstream("/tickets")
	s.promise(!first.GetIsError() && effects == 1, "a program that reads only the five fields repaired the call")
	return nil
}

// repaired is a refused call as the hints of its violations say: under the name that was
// meant, or with the value of the example.
func repaired(sent string, violations []*sidecallv1.ToolError) (string, error) {
	var arguments map[string]json.RawMessage
	if err := json.Unmarshal([]byte(sent), &arguments); err != nil {
		return "", err
	}
	for _, v := range violations {
		if _, meant, ok := strings.Cut(v.GetHint(), `Did you mean "`); ok {
			meant, _, _ = strings.Cut(meant, `"?`)
			arguments[meant] = arguments[v.GetField()]
			delete(arguments, v.GetField())
			continue
		}
		_, example, _ := strings.Cut(v.GetHint(), "e.g. ")
		var value json.RawMessage
		if err := json.NewDecoder(strings.NewReader(example)).Decode(&value); err != nil {
			return "", err
		}
		arguments[v.GetField()] = value
	}
	next, err := json.Marshal(arguments)
	return string(next), err
}

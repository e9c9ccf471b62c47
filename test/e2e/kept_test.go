//go:build e2e

package e2e_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	sidecall "github.com/sidecall/sidecall/clients/go"
	"github.com/sidecall/sidecall/test/testkit/harness"
	"github.com/sidecall/sidecall/test/testkit/mcpservers"
	"github.com/sidecall/sidecall/test/testkit/upstream"
)

// An agent is killed in the middle of a call, and another process goes on with its
// conversation: every call has one effect and one result, and the provider, which
// refuses as the real ones do, takes the array.
func TestAnotherProcessGoesOnWithAConversation(t *testing.T) {
	t.Parallel()
	python, err := mcpservers.Python()
	if err != nil {
		t.Fatal(err)
	}
	built(t)
	script := filepath.Join(harness.Root(), "test", "e2e", "python", "kept.py")
	for language, program := range map[string][]string{
		"python":       {python, "-B", script, "sync"},
		"async python": {python, "-B", script, "async"},
		"node":         {"node", filepath.Join(harness.Root(), "test", "e2e", "node", "kept.mjs")},
	} {
		for _, format := range []sidecall.Format{sidecall.Anthropic, sidecall.OpenAI, sidecall.OpenAIResponses} {
			for _, when := range []string{"before", "after"} {
				t.Run(fmt.Sprintf("%s, %s, killed %s the effect", language, format, when), func(t *testing.T) {
					t.Parallel()
					goesOn(t, program, format, when)
				})
			}
		}
	}
}

// cashier takes payments, and holds the first one until whoever pays is dead.
type cashier struct {
	ledger        *upstream.Ledger
	reached, dead chan struct{}
	first         sync.Once
}

func openCashier(t *testing.T, when string) (*cashier, string) {
	t.Helper()
	c := &cashier{ledger: upstream.NewLedger(), reached: make(chan struct{}), dead: make(chan struct{})}
	hold := func(at string) {
		if at == when {
			c.first.Do(func() {
				close(c.reached)
				select {
				case <-c.dead:
				case <-t.Context().Done(): // the test has failed
				}
			})
		}
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		order := strings.TrimPrefix(r.URL.Path, "/pay/")
		hold("before")
		if err := c.ledger.Write(order); err != nil {
			t.Error(err)
		}
		hold("after")
		fmt.Fprint(w, "paid ", order)
	}))
	t.Cleanup(server.Close)
	return c, server.URL
}

// keeping is what an agent says at its end.
type keeping struct {
	Reason string
	Turns  int
	Texts  []string
}

// goesOn kills an agent of a program in its first call, and has two others go on.
func goesOn(t *testing.T, program []string, format sidecall.Format, when string) {
	t.Helper()
	c, shop := openCashier(t, when)
	s := harness.Start(t, fmt.Sprintf(`
profiles: {all: {}}
default_profile: all
backends: {shop: {http: {base_url: %q, allow_private: true}}}
tools:
  pay:
    backend: shop
    effect: non_idempotent
    http: {method: POST, path: "/pay/{order}"}
    input_schema: {type: object, properties: {order: {type: string}}, required: [order]}
`, shop))
	url, heard := play(t, `{"script": [{"text": "One moment.", "calls": [["pay", {"order": "A-1"}], ["pay", {"order": "A-2"}]]}, {"text": "All is paid."}]}`)
	agent := func() *exec.Cmd {
		args := append(slices.Clone(program[1:]), "tcp://"+s.Addr, url, string(format))
		cmd := exec.CommandContext(t.Context(), program[0], args...)
		cmd.Env = append(os.Environ(), "PYTHONPATH="+filepath.Join(harness.Root(), "clients", "python", "src"))
		return cmd
	}
	c.killsIn(t, agent())
	next, last := ends(t, agent()), ends(t, agent())
	if next.Reason != "end_turn" || next.Turns != 1 || last.Reason != "end_turn" || last.Turns != 0 {
		t.Errorf("the next agent: %+v; the one after it, which has nothing to do: %+v", next, last)
	}
	all := strings.Join(next.Texts, "\n")
	for _, order := range []string{"A-1", "A-2"} {
		if n := c.ledger.Executions(order); n != 1 {
			t.Errorf("%s was paid %d times", order, n)
		}
		if n := strings.Count(all, "paid "+order); n != 1 {
			t.Errorf("%s has %d results:\n%s", order, n, all)
		}
	}
	if requests, refusals := heard(); requests != 2 || refusals != 0 {
		t.Errorf("the provider was asked %d times, and has refused %d", requests, refusals)
	}
	if !slices.Equal(last.Texts, next.Texts) {
		t.Errorf("it has loaded\n%q\nand what was kept is\n%q", last.Texts, next.Texts)
	}
	keptAs(t, s.Addr, format, next.Texts)
}

// killsIn starts an agent, and kills it while it waits for the first payment.
func (c *cashier) killsIn(t *testing.T, agent *exec.Cmd) {
	t.Helper()
	var said strings.Builder
	agent.Stderr = &said
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- agent.Wait() }()
	select {
	case <-c.reached:
	case err := <-ended:
		t.Fatalf("the agent ended before it had paid: %v\n%s", err, said.String())
	}
	if err := agent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil {
		t.Fatal("the agent ended well, and was killed")
	}
	close(c.dead)
}

// ends runs an agent to its end.
func ends(t *testing.T, agent *exec.Cmd) keeping {
	t.Helper()
	var said strings.Builder
	agent.Stderr = &said
	out, err := agent.Output()
	var got keeping
	if err = errors.Join(err, json.Unmarshal(out, &got)); err != nil {
		t.Fatalf("the next agent: %v\n%s%s", err, out, said.String())
	}
	return got
}

// keptAs looks at what is kept with a client of another language.
func keptAs(t *testing.T, addr string, format sidecall.Format, texts []string) {
	t.Helper()
	client, err := sidecall.Dial("tcp://" + addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	kept, err := client.Conversation(t.Context(), "c-1", format)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.EqualFunc(kept.Messages, texts, func(m json.RawMessage, text string) bool { return string(m) == text }) {
		t.Errorf("kept are\n%s\nand the agent has\n%q", kept.Messages, texts)
	}
}

// play starts a provider with a script; heard says how often it was asked, and how often
// it has refused.
func play(t *testing.T, script string) (url string, heard func() (requests, refusals int)) {
	t.Helper()
	cmd := exec.Command("python3", filepath.Join(harness.Root(), "test", "e2e", "python", "play.py"))
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(stdin.Close(), cmd.Wait()); err != nil {
			t.Error(err)
		}
	})
	lines := bufio.NewReader(stdout)
	exchange := func(line string) string {
		if _, err := fmt.Fprintln(stdin, line); err != nil {
			t.Fatal(err)
		}
		answer, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(answer)
	}
	return exchange(script), func() (int, int) {
		var all struct{ Requests, Refusals []any }
		if err := json.Unmarshal([]byte(exchange("")), &all); err != nil {
			t.Fatal(err)
		}
		return len(all.Requests), len(all.Refusals)
	}
}

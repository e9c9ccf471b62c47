//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sidecall/sidecall/test/testkit/harness"
)

// manyTools is a config with n tools, each with a schema of some size.
func manyTools(n int) string {
	var b strings.Builder
	b.WriteString("backends: {up: {http: {base_url: \"http://127.0.0.1:1\", allow_private: true}}}\ntools:\n")
	for i := range n {
		fmt.Fprintf(&b, `  tool_%d:
    backend: up
    description: Does the %dth of many things, and says how it went.
    http: {method: POST, path: "/things/{thing_id}/%d"}
    errors: [{when: "status == 404", code: NOT_FOUND, hint: Search first.}]
    input_schema:
      type: object
      properties:
        thing_id: {type: string, pattern: "^[A-Z]-[0-9]+$", description: Which thing.}
        due: {type: string, format: date}
        priority: {type: string, enum: [low, medium, high, urgent]}
        lines: {type: array, items: {type: object, properties: {sku: {type: string}, count: {type: integer, minimum: 1}}, required: [sku]}}
      required: [thing_id]
      additionalProperties: false
`, i, i, i)
	}
	return b.String()
}

// untilAccepted is how long it took from began until a connection is taken.
func untilAccepted(address string, began time.Time) time.Duration {
	for time.Since(began) < time.Minute {
		if conn, err := net.Dial("tcp", address); err == nil {
			_ = conn.Close() // nothing was sent
			break
		}
		time.Sleep(time.Millisecond) // between two looks
	}
	return time.Since(began)
}

var residentMemory = regexp.MustCompile(`(?m)^process_resident_memory_bytes (\S+)$`)

// The figures depend on the machine: they are printed, and bounded only where
// no machine is that slow.
func TestServeWithAThousandTools(t *testing.T) {
	s := harness.New(t, manyTools(1000))
	s.Release = true
	harness.ReleaseBinary(t) // building is no part of starting
	began := time.Now()
	answers := make(chan time.Duration, 1)
	go func() { answers <- untilAccepted(s.Addr, began) }()
	s.Run()
	accepts := <-answers
	if tools := s.Tools(); len(tools) != 1001 {
		t.Fatalf("%d tools, want 1,000 and read_output", len(tools))
	}
	var ready struct {
		Msg     string `json:"msg"`
		StartMS int    `json:"start_ms"`
	}
	// It answers a moment before its log says so.
	harness.WaitFor(t, "a line that says ready", func() bool {
		for line := range strings.Lines(s.Log()) {
			if strings.HasSuffix(line, "\n") && strings.Contains(line, `"ready"`) {
				if err := json.Unmarshal([]byte(line), &ready); err != nil {
					t.Fatal(err)
				}
			}
		}
		return ready.Msg == "ready"
	})
	_, page := s.Get("/metrics")
	found := residentMemory.FindStringSubmatch(page)
	if found == nil {
		t.Fatal("/metrics does not tell the memory")
	}
	bytes, err := strconv.ParseFloat(found[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("1,000 tools: config read to ready %d ms, process start to open port %d ms, %.0f MiB resident\n",
		ready.StartMS, accepts.Milliseconds(), bytes/(1<<20))
	if bytes > 512<<20 {
		t.Errorf("%.0f MiB resident", bytes/(1<<20))
	}
}

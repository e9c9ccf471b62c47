package mcptool

import (
	"runtime"
	"strings"
	"testing"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/tool"
)

// allocated is how many bytes f takes, all together.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// Three million empty blocks in ten megabytes became a gigabyte.
func TestManyBlocksTakeLittle(t *testing.T) {
	raw := []byte(`{"content":[` + strings.Repeat("{},", 3_000_000) + `{}],"isError":false}`)
	var reply tool.Reply
	took := allocated(func() { reply, _ = read(answer{outcome: resulted, result: raw}, backend.Invocation{}) })
	if !reply.Cut || took > 200<<20 {
		t.Errorf("cut %v, %d MB", reply.Cut, took>>20)
	}
	image := `{"content":[{"type":"text","text":"` + strings.Repeat("x", 256<<10) + `"},{"type":"image","data":"AQI="}],"structuredContent":{"a":1}}`
	reply, f := read(answer{outcome: resulted, result: []byte(image)}, backend.Invocation{})
	if f != nil || reply.Cut || len(reply.Text) != 256<<10 || len(reply.Blocks) != 1 || string(reply.Structured) != `{"a":1}` {
		t.Errorf("a large one of few blocks: %d bytes, %d blocks, cut %v, %v", len(reply.Text), len(reply.Blocks), reply.Cut, f)
	}
}

// A line of ten megabytes may be a batch of five million numbers.
func TestManyMessagesTakeLittle(t *testing.T) {
	line := []byte("[" + strings.Repeat("1,", 5_000_000) + "1]")
	var found int
	took := allocated(func() { found = len(unbatch(line)) })
	if found > maxItems || took > 50<<20 {
		t.Errorf("%d messages, %d MB", found, took>>20)
	}
	for text, want := range map[string]int{`[1, {"a":[2]} ]`: 2, `[]`: 0, `[1, 2`: 1, `[1] x`: 1, `{"a":1}`: 1} {
		if got := unbatch([]byte(text)); len(got) != want {
			t.Errorf("%s: %q", text, got)
		}
	}
	if got := unbatch([]byte(` [1, {"a":[2]} ]`)); string(got[0]) != "1" || string(got[1]) != `{"a":[2]}` {
		t.Errorf("%q", got)
	}
}

// The SDK makes a tool of two hundred bytes of each pair of brackets.
func TestAListOfManyToolsTakesLittle(t *testing.T) {
	page := `"result":{"tools":[{"name":"first"},` + strings.Repeat("{},", 2_000_000) + `{}]}`
	r, _ := listing(t, func(string) string { return page })
	took := allocated(func() { r.up() })
	if took > 100<<20 {
		t.Errorf("%d MB", took>>20)
	}
}

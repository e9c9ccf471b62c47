package app

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/config"
	"github.com/sidecall/sidecall/internal/tool"
)

// pinning is a generation with a discovering backend; log takes what it says.
func pinning(t *testing.T, file string, pin bool) (g *generation, log *bytes.Buffer) {
	t.Helper()
	log = new(bytes.Buffer)
	cfg := parsed(t, fmt.Sprintf(`
store: {memory: {}}
pins: {path: %q}
backends: {files: {pin: %v, mcp: {command: [server], env: {TOKEN: a-long-t0ken}}}}
`, file, pin))
	g, err := newGeneration(cfg, surroundings{logger: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := g.close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return g, log
}

func named(description string) tool.Discovered {
	return tool.Discovered{Name: "read", Description: description}
}

// What a tool says of itself is compared with what it said before a reconnect, or
// before a restart. Where it is pinned its calls are refused until somebody accepts.
func TestAToolThatSaysSomethingElse(t *testing.T) {
	for _, pin := range []bool{false, true} {
		file := filepath.Join(t.TempDir(), "p.pins")
		g, log := pinning(t, file, pin)
		first := discover(t, g, named("reads"))["read"]
		if first.Refused != "" || log.Len() > 0 || !strings.HasPrefix(first.Tool.DefinitionHash, "sha256:") {
			t.Fatalf("at first sight: %q, %s", first.Refused, log)
		}
		restarted, log2 := pinning(t, file, pin)
		for name, g := range map[string]*generation{"a reconnect": g, "a restart": restarted} {
			now := discover(t, g, named("reads, and wants a-long-t0ken"))["read"]
			if (now.Refused != "") != pin || pin && !strings.Contains(now.Refused, first.Tool.DefinitionHash+" then, "+now.Tool.DefinitionHash+" now") {
				t.Errorf("after %s, pin %v: %q", name, pin, now.Refused)
			}
			if !pin {
				discover(t, g, named("reads")) // back again, for the restart
			}
		}
		for _, said := range []string{log.String(), log2.String()} {
			if !strings.Contains(said, "tool=read changed=description was="+first.Tool.DefinitionHash+" is=sha256:") || strings.Contains(said, "wants") {
				t.Errorf("pin %v: the log says %s", pin, said)
			}
		}
		if err := os.Remove(file); err != nil { // the operator accepts
			t.Fatal(err)
		}
		accepted, _ := pinning(t, file, pin)
		if now := discover(t, accepted, named("reads, and wants more"))["read"]; now.Refused != "" {
			t.Errorf("pin %v: accepted and refused: %s", pin, now.Refused)
		}
	}
}

// A call that waits for its server is told when that comes back and says something
// else, however often it has said the same before.
func TestCallsThatWaitForAPinnedToolAreTold(t *testing.T) {
	for _, pin := range []bool{false, true} {
		for name, last := range map[string][]tool.Discovered{
			"something else": {named("reads, and wants more")}, "no such tool": nil,
		} {
			g, _ := pinning(t, filepath.Join(t.TempDir(), "p.pins"), pin)
			first := discover(t, g, named("reads"))["read"]
			second := discover(t, g, named("reads"))["read"]
			for _, route := range []*catalog.Route{first, second} {
				if why := route.Withdrawal.Why(); why != "" {
					t.Errorf("pin %v, while it says the same: %s", pin, why)
				}
			}
			discover(t, g, last...)
			for _, route := range []*catalog.Route{first, second} {
				if why := route.Withdrawal.Why(); (why != "") != pin {
					t.Errorf("pin %v, %s: %q", pin, name, why)
				}
			}
			if now := discover(t, g, named("reads"))["read"]; now.Refused+now.Withdrawal.Why() != "" {
				t.Errorf("pin %v, %s, and back again: %q, %q", pin, name, now.Refused, now.Withdrawal.Why())
			}
		}
	}
}

// Where the file cannot be written, nothing is trusted at first sight.
func TestPinsThatCannotBeWritten(t *testing.T) {
	nowhere := filepath.Join(t.TempDir(), "gone", "p.pins")
	for _, pin := range []bool{false, true} {
		g, log := pinning(t, nowhere, pin)
		if now := discover(t, g, named("reads"))["read"]; (now.Refused != "") != pin || !strings.Contains(log.String(), "cannot be written") {
			t.Errorf("pin %v: %q, %s", pin, now.Refused, log)
		}
	}
}

// A file of pins that is no such file is wrong where a backend relies on it.
func TestPinsThatCannotBeRead(t *testing.T) {
	file := filepath.Join(t.TempDir(), "p.pins")
	if err := os.WriteFile(file, []byte("what\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	g, log := pinning(t, file, false)
	if discover(t, g, named("reads"))["read"] == nil || !strings.Contains(log.String(), "line 1") {
		t.Errorf("the log says %s", log)
	}
	cfg := parsed(t, fmt.Sprintf("pins: {path: %q}\nbackends: {files: {pin: true, mcp: {command: [server]}}}", file))
	_, err := newGeneration(cfg, surroundings{logger: slog.New(slog.DiscardHandler)})
	if err == nil || !strings.Contains(err.Error(), ":2:") || !strings.Contains(err.Error(), "line 1") {
		t.Errorf("the start says %v", err)
	}
}

// One name fills no file: a tool whose name is too long to be written down has no pin.
func TestANameThatIsTooLongToBePinned(t *testing.T) {
	for _, pin := range []bool{false, true} {
		file := filepath.Join(t.TempDir(), "p.pins")
		g, _ := pinning(t, file, pin)
		long := tool.Discovered{Name: strings.Repeat("n", 100_000)}
		found := discover(t, g, long, named("reads"))
		if len(found) != 2 || found["read"].Refused != "" {
			t.Fatalf("pin %v: %v", pin, found)
		}
		for name, route := range found {
			if name != "read" && (route.Refused != "") != pin {
				t.Errorf("pin %v: it is refused because %q", pin, route.Refused)
			}
		}
		if info, err := os.Stat(file); err != nil || info.Size() > 10_000 {
			t.Errorf("pin %v: the file has %d bytes, %v", pin, info.Size(), err)
		}
	}
}

func TestWhereThePinsAre(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		"backends: {a: {mcp: {command: [x]}}}":                                 here + "/sidecall.pins",
		"backends: {a: {exec: {}}}":                                            "",
		"store: {memory: {}}\nbackends: {a: {mcp: {command: [x]}}}":            "",
		"store: {memory: {}}\nbackends: {a: {pin: true, mcp: {command: [x]}}}": here + "/sidecall.pins",
		"pins: {path: /etc/p}\nstore: {memory: {}}\nbackends: {a: {exec: {}}}": "/etc/p",
	} {
		cfg, err := config.Parse("test.yaml", []byte(text), config.System())
		if err != nil {
			t.Fatal(err)
		}
		if got := cfg.PinsFile(); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}

package app

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/config"
	"github.com/sidecall/sidecall/test/testkit/harness"
)

func TestInstance(t *testing.T) {
	t.Parallel()
	host := hostName()
	named := func(text string) string {
		cfg, err := config.Parse("s.yaml", []byte(text), config.System())
		if err != nil {
			t.Fatal(err)
		}
		return instance(cfg)
	}
	for text, want := range map[string]string{
		"{}":                                     host + " tcp://127.0.0.1:8470",
		"instance: checkout-7":                   "checkout-7",
		"listen: [unix:///run/a.sock]":           host + " unix:///run/a.sock",
		"listen: [tcp://localhost:1, unix:///x]": host + " tcp://localhost:1",
	} {
		if got := named(text); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	if a, b := named("listen: [tcp://127.0.0.1:0]"), named("listen: [tcp://127.0.0.1:0]"); a == b {
		t.Errorf("two that have no address of their own are both %q", a)
	}
	if config.MaxInstanceBytes != dedupe.MaxInstanceBytes {
		t.Errorf("the config allows %d bytes, the store %d", config.MaxInstanceBytes, dedupe.MaxInstanceBytes)
	}
}

// A process is gone when nothing of its number and start is there; only then, and
// only where that can be seen.
func TestGone(t *testing.T) {
	t.Parallel()
	me := self()
	if me.World == "" {
		t.Skip("nobody can tell here")
	}
	if gone(me) {
		t.Error("this process is gone")
	}
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	start, _ := startOf(cmd.Process.Pid)
	child := dedupe.Who{PID: cmd.Process.Pid, World: me.World, Start: start}
	signal := func(s os.Signal) {
		if err := cmd.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
	}
	signal(syscall.SIGSTOP)
	if gone(child) {
		t.Error("a process that is stopped is gone")
	}
	other := child
	other.Start += "1"
	if !gone(other) {
		t.Error("another process of the same number is taken for it")
	}
	signal(syscall.SIGKILL)
	harness.WaitFor(t, "one that was killed, and not waited for, to be gone", func() bool { return gone(child) })
	_ = cmd.Wait() // it was killed
	if !gone(child) {
		t.Error("killed, it is not gone")
	}
	for name, who := range map[string]dedupe.Who{
		"of another machine or container": {PID: child.PID, World: child.World + "x", Start: start},
		"of no world":                     {PID: child.PID, Start: start},
		"of no start":                     {PID: child.PID, World: child.World},
		"of no number":                    {World: child.World, Start: start},
		"of nobody":                       {},
	} {
		if gone(who) {
			t.Errorf("a process %s is gone", name)
		}
	}
	if !strings.Contains(me.String(), me.Host) {
		t.Errorf("it says of itself %q", me.String())
	}
}

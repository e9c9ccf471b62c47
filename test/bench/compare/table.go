package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"
)

// lines are those of the table of where the processor time goes, each with how the functions
// begin that it is of. A sample is of the line that knows the innermost of its functions which any line
// knows: what is allocated in validation is allocation, and what copies bytes there is validation.
var lines = []struct {
	name  string
	begin []string
}{
	{"system calls", []string{"internal/runtime/syscall.", "syscall.", "runtime.netpoll", "runtime.write", "runtime.read"}},
	{"allocation", []string{"runtime.mallocgc", "runtime.gc", "runtime.bgsweep", "runtime.bgscavenge"}},
	{"goroutines", []string{"runtime.mcall", "runtime.mstart", "runtime.schedule", "runtime.sysmon", "runtime.futex", "runtime.ready", "runtime.goready", "runtime.newproc", "runtime.newstack", "runtime.chansend", "runtime.chanrecv", "runtime.selectgo", "runtime.gopark", "runtime.closechan"}},
	{"contexts and timers", []string{"context.", "time."}},
	{"gRPC's wire", []string{"google.golang.org/"}},
	{"HTTP's wire", []string{"net/http."}},
	{"Redis client", []string{"github.com/redis/"}},
	{"validation", []string{sidecall + "internal/schema.", sidecall + "internal/pattern."}},
	{"claim and settlement", []string{sidecall + "dedupe.", sidecall + "internal/store/"}},
	{"attempt", []string{sidecall + "internal/backend", sidecall + "retry.", sidecall + "breaker.", sidecall + "internal/limit."}},
	{"interpretation", []string{sidecall + "internal/interpret.", sidecall + "internal/output."}},
	{"rules", []string{sidecall + "internal/rules"}},
	{"telling", []string{sidecall + "internal/telemetry.", "go.opentelemetry.io/", "log/slog"}},
	{"the call itself", []string{sidecall, "main."}},
}

const (
	sidecall = "github.com/sidecall/sidecall/"
	rest     = "all else"
)

// profileRound is how long a profile is taken: at 100 samples a second of processor time, some
// 2,000, so that a line of 5 µs of 200 has 50.
const profileRound = 20 * time.Second

// profile is what shares of a server's processor time go where while work is done, read from the
// file of its profile.
func profile(ctx context.Context, server *process, path string, work func() error) (shares map[string]float64, err error) {
	if err := server.cmd.Process.Signal(syscall.SIGUSR1); err != nil {
		return nil, err
	}
	if err := work(); err != nil {
		return nil, err
	}
	if err := server.cmd.Process.Signal(syscall.SIGUSR1); err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(profileRound); ; time.Sleep(20 * time.Millisecond) {
		if _, err := os.Stat(path); err == nil {
			break
		} else if !errors.Is(err, fs.ErrNotExist) || time.Now().After(deadline) {
			return nil, fmt.Errorf("no profile of %s: %w", server.name, err)
		}
	}
	traces, err := exec.CommandContext(ctx, "go", "tool", "pprof", "-traces", path).Output()
	if err != nil {
		return nil, fmt.Errorf("go tool pprof: %w", err)
	}
	return sharesOf(traces)
}

// sharesOf reads the traces of a profile: each begins with a rule, and has a duration before its first,
// innermost function.
func sharesOf(traces []byte) (shares map[string]float64, err error) {
	spent := map[string]time.Duration{}
	var all, of time.Duration
	var line string
	end := func() {
		if line == "" {
			line = rest
		}
		spent[line] += of
		all += of
		of, line = 0, ""
	}
	for scan := bufio.NewScanner(bytes.NewReader(traces)); scan.Scan(); {
		fields := strings.Fields(scan.Text())
		if len(fields) == 1 && strings.HasPrefix(fields[0], "-----") {
			end()
			continue
		}
		if len(fields) > 1 {
			if d, err := time.ParseDuration(fields[0]); err == nil {
				of, fields = d, fields[1:]
			}
		}
		if len(fields) > 0 && line == "" && of > 0 {
			line = lineOf(fields[0])
		}
	}
	end()
	if all == 0 {
		return nil, errors.New("a profile without samples")
	}
	shares = map[string]float64{}
	for name, d := range spent {
		shares[name] = float64(d) / float64(all)
	}
	return shares, nil
}

func lineOf(function string) string {
	for _, line := range lines {
		for _, begin := range line.begin {
			if strings.HasPrefix(function, begin) {
				return line.name
			}
		}
	}
	return ""
}

// column is what a call costs one server: its rounds, and the shares of its time.
type column struct {
	name   string
	rounds sample
	shares map[string]float64
}

// printTable prints what a call costs where.
func printTable(out io.Writer, inFlight int, columns []column) error {
	w := tabwriter.NewWriter(out, 2, 0, 2, ' ', tabwriter.AlignRight)
	row := func(name string, of func(column) float64) {
		fmt.Fprintf(w, "%s\t", name)
		for _, c := range columns {
			fmt.Fprintf(w, "%.0f\t", of(c))
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "\nµs of CPU per call at %d\t", inFlight)
	for _, c := range columns {
		fmt.Fprintf(w, "%s\t", c.name)
	}
	fmt.Fprintln(w)
	for _, line := range lines {
		row(line.name, func(c column) float64 { return c.shares[line.name] * float64(c.rounds.cpuPerCall()) / 1e3 })
	}
	row(rest, func(c column) float64 { return c.shares[rest] * float64(c.rounds.cpuPerCall()) / 1e3 })
	row("redis-server", func(c column) float64 { return float64(c.rounds.redisPerCall()) / 1e3 })
	return w.Flush()
}

package cases

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"syscall"

	"github.com/sidecall/sidecall/internal/config"
)

// What a command and the stand-in behind it tell each other, as headers.
const (
	keyHeader  = "Idempotency-Key"
	exitHeader = "Exit-Code"
)

// keyVariable is where a command finds its idempotency key.
const keyVariable = "SIDECALL_IDEMPOTENCY_KEY"

// commandStandIn stands in for an exec backend: every command of it is this program
// again (Command), which asks here what to do.
type commandStandIn struct {
	ledger *ledger
	pace   pace
	// tools are those of the backend, by the paths at which they are asked for.
	tools map[string]target
}

func newCommandStandIn(backend string, t targets, l *ledger, p pace) *commandStandIn {
	s := &commandStandIn{l, p, make(map[string]target)}
	for _, name := range t.declared() {
		if one, ok := t.find(name); ok && one.backend == backend {
			s.tools["/"+name] = one
		}
	}
	return s
}

// handler answers for the commands until stop.
func (s *commandStandIn) handler(stop <-chan struct{}) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x, whole := received(w, r, stop, s.pace)
		one, ok := s.tools[r.URL.Path]
		if !ok || !whole {
			x.write(http.StatusNotFound, "text/plain", nil)
			return
		}
		switch f := s.ledger.request(one, one.sameness(r.Header.Get(keyHeader), digest(x.body))); f.kind {
		case empty:
			x.write(http.StatusOK, "text/plain", nil)
		case toolError:
			w.Header().Set(exitHeader, strconv.Itoa(cmp.Or(f.exit, 1)))
			x.write(http.StatusOK, "text/plain", []byte(f.words()))
		default:
			if !x.fail(one, f) {
				x.answer(*f.body)
			}
		}
	})
}

// redirectCommands lets the tools of an exec backend run the stand-in program,
// which asks at an address. Nothing of their environment is passed on.
func redirectCommands(cfg *config.Config, name string, program []string, to string) {
	b := cfg.Backends[name].Exec
	b.Dir, b.Env, b.RunAs = config.Path{}, config.Env{}, config.Text{}
	for tool, t := range cfg.Tools {
		if t.Backend != name || t.Exec == nil {
			continue
		}
		t.Exec.Argv = nil
		for _, arg := range append(append([]string{}, program...), to+"/"+tool) {
			t.Exec.Argv = append(t.Exec.Argv, config.NewText(arg))
		}
	}
}

// Command is what the stand-in of a command does: it hands on its input to whoever
// runs the cases, at the address, prints what it is told, and returns the exit code.
// When it gets no answer it dies of a signal, as a command does that is killed.
func Command(address string, stdin io.Reader, stdout, stderr io.Writer) int {
	exit, out, err := ask(address, stdin)
	switch {
	case err != nil:
		die()
	case exit != 0:
		_, err = stderr.Write(out)
	default:
		_, err = stdout.Write(out)
	}
	if err != nil {
		return max(exit, 1)
	}
	return exit
}

// ask asks once what to print and how to end.
func ask(address string, stdin io.Reader) (exit int, out []byte, err error) {
	input, err := io.ReadAll(io.LimitReader(stdin, maxBody))
	if err != nil {
		return 0, nil, err
	}
	req, err := http.NewRequest(http.MethodPost, address, bytes.NewReader(input)) //nolint:gosec,noctx // who runs this says where; it waits as long as it is let live
	if err != nil {
		return 0, nil, err
	}
	req.GetBody = nil // it is asked once
	req.Header.Set(keyHeader, os.Getenv(keyVariable))
	res, err := (&http.Client{Transport: &http.Transport{}}).Do(req) //nolint:gosec // see above
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = res.Body.Close() }() // read to its end
	if res.StatusCode >= http.StatusMultipleChoices {
		return 0, nil, fmt.Errorf("the stand-in answers %s", res.Status)
	}
	exit, _ = strconv.Atoi(res.Header.Get(exitHeader)) // 0 where there is none
	out, err = io.ReadAll(res.Body)
	return exit, out, err
}

// die ends this process by a signal that it cannot catch.
func die() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL) // cannot fail: a process may always signal itself
	select {}                                      // the signal may arrive a moment later
}

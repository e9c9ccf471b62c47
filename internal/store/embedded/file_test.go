package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/store/storetest"
	"github.com/sidecall/sidecall/internal/tool"
	"github.com/sidecall/sidecall/test/testkit/transcript"
)

// mishap is what somebody does to the file of a store that runs. copied is the
// file as it was some calls before.
type mishap struct {
	do func(path string, copied []byte) error
	// silent: nothing tells of it until a request comes to what was damaged.
	silent bool
}

var mishaps = map[string]mishap{
	"cut to nothing":      {do: func(path string, _ []byte) error { return os.Truncate(path, 0) }},
	"cut to its head":     {do: func(path string, _ []byte) error { return os.Truncate(path, 8192) }},
	"cut by a page":       {do: func(path string, _ []byte) error { return resize(path, -4096) }},
	"zeroed":              {do: func(path string, _ []byte) error { return zero(path, 0) }},
	"zeroed but its head": {do: func(path string, _ []byte) error { return zero(path, 8192) }, silent: true},
	"removed":             {do: func(path string, _ []byte) error { return os.Remove(path) }},
	"moved away":          {do: func(path string, _ []byte) error { return os.Rename(path, path+".old") }},
	"replaced by a copy":  {do: replace},
	"overwritten by one":  {do: func(path string, copied []byte) error { return os.WriteFile(path, copied, 0o600) }},
	"its directory is gone": {do: func(path string, _ []byte) error {
		return os.Rename(filepath.Dir(path), filepath.Dir(path)+".old")
	}},
}

func resize(path string, by int64) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	return os.Truncate(path, info.Size()+by)
}

// zero overwrites a file with zeros from an offset on.
func zero(path string, from int64) (err error) {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	_, err = f.WriteAt(make([]byte, info.Size()-from), from)
	return err
}

func replace(path string, copied []byte) error {
	if err := os.WriteFile(path+".copy", copied, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".copy", path)
}

// fragile is a store whose file meets a mishap.
type fragile struct {
	*Store
	log    *transcript.Transcript
	copied []byte
}

const (
	doneBefore = 40
	atWork     = 16
)

// openFragile opens a store with calls that are done, and some at work.
func openFragile(t *testing.T) *fragile {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	log := &transcript.Transcript{}
	path := filepath.Join(dir, "store.db")
	s := open(t, path, Options{Log: slog.New(slog.NewJSONHandler(log, nil))})
	for i := range doneBefore {
		finished(t, s, fmt.Sprint("done ", i), strings.Repeat("paid", 200))
	}
	copied, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := range atWork {
		claim(t, s, request(fmt.Sprint("at work ", i), tool.NonIdempotent))
	}
	return &fragile{Store: s, log: log, copied: copied}
}

// answerTime is more than anything here may take: a request whose time is over is
// to be answered too.
const answerTime = 10 * time.Second

// atOnce makes a request many times at the same time and returns the errors; it
// fails when one of them is not answered within its deadline.
func atOnce(t *testing.T, request func(ctx context.Context, i int) error) []error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), answerTime)
	defer cancel()
	errs := make([]error, atWork)
	var crowd sync.WaitGroup
	for i := range atWork {
		crowd.Go(func() { errs[i] = request(ctx, i) })
	}
	ended(t, "requests", crowd.Wait)
	if ctx.Err() != nil {
		t.Errorf("they were answered only when their time was over: %v", errors.Join(errs...))
	}
	return errs
}

// ended fails the test when something does not come to its end.
func ended(t *testing.T, what string, wait func()) {
	t.Helper()
	over := make(chan struct{})
	go func() { wait(); close(over) }()
	select {
	case <-over:
	case <-time.After(3 * answerTime):
		t.Fatalf("no end: %s", what)
	}
}

// firsts are the requests that can be the first to meet a mishap.
var firsts = map[string]func(s *Store) func(ctx context.Context, i int) error{
	"claims": func(s *Store) func(context.Context, int) error {
		return func(ctx context.Context, i int) error {
			_, err := s.Admit(ctx, request(fmt.Sprint("new ", i), tool.NonIdempotent))
			return err
		}
	},
	"settlements": func(s *Store) func(context.Context, int) error {
		return func(ctx context.Context, i int) error {
			_, err := s.Settle(ctx, settlement(fmt.Sprint("at work ", i), "paid"))
			return err
		}
	},
	"renewals": func(s *Store) func(context.Context, int) error {
		return func(ctx context.Context, i int) error {
			req := request(fmt.Sprint("at work ", i), tool.NonIdempotent)
			_, err := storetest.Renew(ctx, s, req.Key, req.Owner, 1, req.Lease)
			return err
		}
	},
	"looks": func(s *Store) func(context.Context, int) error {
		return func(ctx context.Context, i int) error {
			_, err := storetest.Lookup(ctx, s, request(fmt.Sprint("done ", i), 0).Key)
			return err
		}
	},
}

// Whatever happens to the file under a store that runs, and whoever meets it
// first: all are answered, nobody is told that something was stored, and from
// then on everything is refused at once, by a word that names the file.
func TestTheFileUnderARunningStore(t *testing.T) {
	t.Parallel()
	for what, m := range mishaps {
		for first, request := range firsts {
			t.Run(what+", then "+first, func(t *testing.T) {
				t.Parallel()
				s := openFragile(t)
				if err := m.do(s.file.path, s.copied); err != nil {
					t.Fatal(err)
				}
				for i, err := range atOnce(t, request(s.Store)) {
					if err == nil && first != "looks" { // what is mapped can be read for a moment
						t.Errorf("%d is told that it was stored", i)
					}
				}
				s.isFailed(t)
			})
		}
	}
}

// isFailed waits until the store says that it has failed, and closes it.
func (s *fragile) isFailed(t *testing.T) {
	t.Helper()
	for began := time.Now(); s.Ping(t.Context()) == nil; time.Sleep(time.Millisecond) {
		if time.Since(began) > answerTime {
			t.Fatal("nobody notices")
		}
	}
	for name, request := range firsts {
		for _, err := range atOnce(t, request(s.Store)) {
			var failed *dedupe.FailedError
			if !errors.As(err, &failed) || failed.File != s.file.path || !strings.Contains(err.Error(), s.file.path) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	ended(t, "Close", func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	// Only now: who notices first says so after the others can see it.
	if n := strings.Count(s.log.String(), `"msg":"the store has failed`); n != 1 {
		t.Errorf("the log says so %d times:\n%s", n, s.log)
	}
}

// What nobody asks for is noticed all the same, within a second.
func TestAMishapIsNoticedUnasked(t *testing.T) {
	t.Parallel()
	for what, m := range mishaps {
		if m.silent {
			continue
		}
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := openFragile(t)
				time.Sleep(time.Minute)
				if err := s.Ping(t.Context()); err != nil {
					t.Fatalf("nothing has happened, and it says %v", err)
				}
				if err := m.do(s.file.path, s.copied); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
				synctest.Wait()
				var failed *dedupe.FailedError
				if err := s.Ping(t.Context()); !errors.As(err, &failed) {
					t.Errorf("a second later it says %v", err)
				}
			})
		})
	}
}

// The same in the middle of everything: who claims and settles under load is
// answered, and every answer that says that something was stored came before.
func TestAMishapUnderLoad(t *testing.T) {
	t.Parallel()
	for what, m := range mishaps {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := openFragile(t)
			var crowd sync.WaitGroup
			started := make(chan struct{}, 64)
			for worker := range 32 {
				crowd.Go(func() { s.work(t, worker, started) })
			}
			for range 64 {
				<-started
			}
			if err := m.do(s.file.path, s.copied); err != nil {
				t.Fatal(err)
			}
			ended(t, "calls", crowd.Wait)
			s.isFailed(t)
		})
	}
}

// work makes calls until one fails.
func (s *fragile) work(t *testing.T, worker int, started chan<- struct{}) {
	for i := 0; ; i++ {
		id := fmt.Sprint(worker, " ", i)
		for _, step := range []func(context.Context) error{
			func(ctx context.Context) error { _, err := s.Admit(ctx, request(id, tool.NonIdempotent)); return err },
			func(ctx context.Context) error { _, err := s.Settle(ctx, settlement(id, "paid")); return err },
			func(ctx context.Context) error { _, err := storetest.Lookup(ctx, s, request(id, 0).Key); return err },
		} {
			ctx, cancel := context.WithTimeout(t.Context(), answerTime)
			err := step(ctx)
			late := ctx.Err() != nil
			cancel()
			if late {
				t.Errorf("%s was answered only when its time was over: %v", id, err)
			}
			if err != nil {
				return
			}
		}
		select {
		case started <- struct{}{}:
		default:
		}
	}
}

package share

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// place is a store, and whoever comes to it.
type place struct {
	*testing.T

	store string
}

func newPlace(t *testing.T) *place { return &place{t, filepath.Join(t.TempDir(), "s.db")} }

func (p *place) dir() string {
	p.Helper()
	dir, err := os.MkdirTemp("", "share-") // a socket's path is short
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func ignore(error) {}

// host comes first, and receives whoever has the config "same".
func (p *place) host() *Host {
	p.Helper()
	host, guest, err := Enter(p.Context(), p.store, p.dir(), "same", ignore)
	if host == nil || guest != nil || err != nil {
		p.Fatalf("%v, %v, %v", host, guest, err)
	}
	go host.Receive(func(_ context.Context, config string) (Answer, error) {
		switch config {
		case "same":
			return Answer{Listen: "unix:///s", Missing: map[string]string{"files": "away"}}, nil
		case "changed":
			return Answer{}, errors.New("its file has changed")
		}
		return Answer{}, ErrOther
	})
	p.Cleanup(func() { host.end() })
	return host
}

// end is the end of the host's process.
func (h *Host) end() { _ = errors.Join(h.listener.Close(), h.lock.Close()) }

func (p *place) guest() *Guest {
	p.Helper()
	host, guest, err := Enter(p.Context(), p.store, p.dir(), "same", ignore)
	if host != nil || guest == nil || err != nil {
		p.Fatalf("%v, %v, %v", host, guest, err)
	}
	return guest
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// The host serves until its own program and every guest has gone.
func TestTheHostStaysUntilTheLastHasGone(t *testing.T) {
	p := newPlace(t)
	host := p.host()
	one, other := p.guest(), p.guest()
	if one.Answer.Listen != "unix:///s" || one.Answer.Missing["files"] != "away" {
		t.Errorf("a guest is told %+v", one.Answer)
	}
	leave := func(g *Guest) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := g.Stay(ctx); err != nil {
			t.Error(err)
		}
	}
	leave(one)
	alone := host.Release()
	if closed(alone) {
		t.Error("it goes although a guest is there")
	}
	leave(other)
	<-alone
}

func TestAHostWithoutGuestsGoesWithItsProgram(t *testing.T) {
	if host := newPlace(t).host(); !closed(host.Release()) {
		t.Error("it stays for nobody")
	}
}

// Whoever comes while the host goes is the next host, when that has gone; also with another
// config, as one that was changed and started again at once.
func TestWhoComesWhileTheHostGoesWaitsForTheStore(t *testing.T) {
	for _, config := range []string{"same", "another"} {
		waitsForTheStore(t, config)
	}
}

func waitsForTheStore(t *testing.T, config string) {
	t.Helper()
	p := newPlace(t)
	host := p.host()
	<-host.Release()
	next, waits := make(chan *Host), make(chan error)
	go func() {
		host, _, err := Enter(t.Context(), p.store, p.dir(), config, func(why error) {
			if errors.Is(why, ErrGoing) {
				waits <- why
			}
		})
		if err != nil {
			t.Error(err)
		}
		next <- host
	}()
	<-waits
	host.end()
	if host := <-next; host == nil {
		t.Error("the place is free, and nobody has it")
	} else {
		host.end()
	}
}

// A guest ends when its host does.
func TestAGuestIsToldThatItsHostHasGone(t *testing.T) {
	p := newPlace(t)
	host, err := newHostOf(p)
	if err != nil {
		t.Fatal(err)
	}
	accepted := make(chan struct{})
	go func() {
		conn, err := host.listener.Accept()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = conn.Write([]byte(`{"answer":{"listen":"unix:///s"}}`))
		<-accepted
		_ = conn.Close()
	}()
	guest := p.guest()
	close(accepted)
	if err := guest.Stay(t.Context()); !errors.Is(err, ErrHostGone) {
		t.Errorf("it is told %v", err)
	}
}

func newHostOf(p *place) (*Host, error) {
	host, _, err := Enter(p.Context(), p.store, p.dir(), "same", ignore)
	p.Cleanup(func() { host.end() })
	return host, err
}

// What keeps somebody out is said: another config at once, the rest when the time is over.
func TestWhatKeepsSomebodyOutIsSaid(t *testing.T) {
	p := newPlace(t)
	host := p.host()
	says := func(ctx context.Context, config, want string) {
		t.Helper()
		host, guest, err := Enter(ctx, p.store, p.dir(), config, ignore)
		if host != nil || guest != nil || err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), p.store) {
			t.Errorf("%v, %v, %v; want %q", host, guest, err, want)
		}
	}
	says(t.Context(), "other", "with another config")
	says(t.Context(), "changed", "(its file has changed)")
	<-host.Release()
	over, cancel := context.WithCancel(t.Context())
	cancel()
	says(over, "same", "does not answer") // it was not even asked
	if _, why := visit(t.Context(), host.lock, "same"); !errors.Is(why, ErrGoing) {
		t.Errorf("of one that goes it is said: %v", why)
	}
}

// Where there is no place for a lock the store says what is wrong.
func TestWithoutAPlaceThereIsNoLock(t *testing.T) {
	if host, guest, err := Enter(t.Context(), filepath.Join(t.TempDir(), "no", "s.db"), t.TempDir(), "", ignore); host != nil || guest != nil || err != nil {
		t.Errorf("%v, %v, %v", host, guest, err)
	}
}

// What a host before has left in the lock leads nobody anywhere, however long it was.
func TestTheLockLeadsToItsHostAlone(t *testing.T) {
	p := newPlace(t)
	if err := os.WriteFile(p.store+".lock", []byte(strings.Repeat("/gone", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	host := p.host()
	if got, err := os.ReadFile(p.store + ".lock"); err != nil || string(got) != host.listener.Addr().String() {
		t.Errorf("it leads to %q, %v", got, err)
	}
	p.guest()
}

// A lock that others can write may lead to somebody else. Who gets it makes it its own.
func TestALockOfOthersIsRefused(t *testing.T) {
	p := newPlace(t)
	open := func() {
		if err := os.Chmod(p.store+".lock", 0o662); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(p.store+".lock", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	open()
	p.host()
	p.guest()
	open()
	host, guest, err := Enter(t.Context(), p.store, p.dir(), "same", ignore)
	if host != nil || guest != nil || err == nil || !strings.Contains(err.Error(), "may lead to a sidecar that is not yours") {
		t.Errorf("%v, %v, %v", host, guest, err)
	}
}

// stumbling is a listener that cannot accept for once.
type stumbling struct {
	net.Listener

	stumbled bool
}

func (s *stumbling) Accept() (net.Conn, error) {
	if !s.stumbled {
		s.stumbled = true
		return nil, unix.EMFILE
	}
	return s.Listener.Accept()
}

// A host that cannot take somebody in for the moment takes in whoever comes later.
func TestAHostOutlastsAMomentWithoutDescriptors(t *testing.T) {
	p := newPlace(t)
	host, err := newHostOf(p)
	if err != nil {
		t.Fatal(err)
	}
	host.listener = &stumbling{Listener: host.listener}
	go host.Receive(func(context.Context, string) (Answer, error) { return Answer{Listen: "unix:///s"}, nil })
	p.guest()
}

// A host that waits for something answers before its guest gives up, and knows when one has.
func TestAHostAnswersInTheTimeOfItsGuest(t *testing.T) {
	p := newPlace(t)
	host, err := newHostOf(p)
	if err != nil {
		t.Fatal(err)
	}
	go host.Receive(func(ctx context.Context, _ string) (Answer, error) {
		<-ctx.Done()
		return Answer{Listen: "unix:///s", Missing: map[string]string{"files": ctx.Err().Error()}}, nil
	})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	_, guest, err := Enter(ctx, p.store, p.dir(), "same", ignore)
	if err != nil || guest.Answer.Missing["files"] != context.DeadlineExceeded.Error() {
		t.Fatalf("%+v, %v", guest, err)
	}
	hurried, leave := context.WithCancel(t.Context())
	go func() {
		_, _, err = Enter(hurried, p.store, p.dir(), "same", ignore)
		cancel()
	}()
	leave()
	<-ctx.Done()
	if err == nil || !strings.Contains(err.Error(), "does not answer") {
		t.Errorf("it is told %v", err)
	}
}

// A guest that was taken in just as its time ended has its host.
func TestAGuestThatIsTakenInAtTheLastMomentStays(t *testing.T) {
	p := newPlace(t)
	host, err := newHostOf(p)
	if err != nil {
		t.Fatal(err)
	}
	ends := make(chan func(), 1)
	go host.Receive(func(context.Context, string) (Answer, error) {
		(<-ends)()
		return Answer{Listen: "unix:///s"}, nil
	})
	for range 500 {
		ctx, cancel := context.WithCancel(t.Context())
		ends <- cancel
		_, guest, err := Enter(ctx, p.store, "", "same", ignore)
		if err != nil {
			continue // its time was over
		}
		if err := guest.conn.(*net.UnixConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, guest.conn); err != nil { // until the host closes it
			t.Fatal(err)
		}
	}
}

package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/tool"
)

// idOn returns an id whose record is on the i-th of n masters that share the
// slots.
func idOn(t *testing.T, masters []*fake, i int) string {
	t.Helper()
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{masters[0].addr}, MaxRedirects: -1})
	defer client.Close()
	for n := range 1000 {
		req := spread(fmt.Sprint(n))
		master, err := client.MasterForKey(t.Context(), RecordKey("sidecall:", req.Key))
		if err != nil {
			t.Fatal(err)
		}
		if master.Options().Addr == masters[i].addr {
			return fmt.Sprint(n)
		}
	}
	t.Fatal("no id found")
	return ""
}

// spread is a request without a conversation, so that its id decides its slot.
func spread(id string) dedupe.Request {
	req := request(id, tool.NonIdempotent)
	req.Key.Conversation = ""
	return req
}

func won([]string) string { return replyWon }

func overFakes(t *testing.T, masters []*fake, more Options) *Store {
	t.Helper()
	more.Addrs, more.Cluster = []string{masters[0].addr}, true
	return open(t, more)
}

func TestACommandFollowsItsSlot(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		redirection func(to *fake) string
		want        []string // what the new node hears
	}{
		"moved":                  {func(to *fake) string { return "-MOVED 1 " + to.addr + "\r\n" }, []string{"evalsha"}},
		"moved on the same host": {func(to *fake) string { return "-MOVED 1 " + strings.TrimPrefix(to.addr, "127.0.0.1") + "\r\n" }, []string{"evalsha"}},
		"on its way":             {func(to *fake) string { return "-ASK 1 " + to.addr + "\r\n" }, []string{"asking", "evalsha"}},
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			var masters []*fake
			masters = startFakeCluster(t, func([]string) string { return c.redirection(masters[1]) }, func(words []string) string {
				if words[0] == "asking" {
					return replyOK
				}
				return replyWon
			})
			s := overFakes(t, masters, Options{})
			if a, err := s.Admit(t.Context(), spread(idOn(t, masters, 0))); err != nil || a.Verdict != dedupe.Won {
				t.Fatal(a.Verdict, err)
			}
			masters[1].mu.Lock()
			defer masters[1].mu.Unlock()
			var heard []string
			for _, name := range masters[1].heard {
				if name != "cluster" && name != "info" {
					heard = append(heard, name)
				}
			}
			if strings.Join(heard, " ") != strings.Join(c.want, " ") {
				t.Errorf("the new node heard %v, want %v", heard, c.want)
			}
			if n := masters[0].times("evalsha"); n != 1 {
				t.Errorf("the old node was asked %d times", n)
			}
		})
	}
}

// Two nodes that send a command to each other do not keep it for ever.
func TestASlotThatNobodyHas(t *testing.T) {
	t.Parallel()
	var masters []*fake
	masters = startFakeCluster(t,
		func([]string) string { return "-MOVED 1 " + masters[1].addr + "\r\n" },
		func([]string) string { return "-MOVED 1 " + masters[0].addr + "\r\n" })
	s := overFakes(t, masters, Options{})
	a, err := s.Admit(t.Context(), spread(idOn(t, masters, 0)))
	if err == nil || !redis.HasErrorPrefix(err, "MOVED") {
		t.Errorf("got %v, %v", a.Verdict, err)
	}
	if n, most := masters[0].times("evalsha")+masters[1].times("evalsha"), maxTries*maxRedirects; n != most {
		t.Errorf("it was sent %d times, want %d", n, most)
	}
}

func TestPassingErrorsOfACluster(t *testing.T) {
	t.Parallel()
	for _, said := range []string{"TRYAGAIN Multiple keys request during rehashing of slot", "CLUSTERDOWN The cluster is down", "LOADING Redis is loading", "BUSY Redis is busy"} {
		var asked atomic.Int32
		masters := startFakeCluster(t, func([]string) string {
			if asked.Add(1) < maxTries {
				return "-" + said + "\r\n"
			}
			return replyWon
		})
		s := overFakes(t, masters, Options{})
		if a, err := s.Admit(t.Context(), request("x", tool.NonIdempotent)); err != nil || a.Verdict != dedupe.Won {
			t.Errorf("%s: %v, %v", said, a.Verdict, err)
		}
		if n := asked.Load(); n != maxTries {
			t.Errorf("%s: asked %d times", said, n)
		}
	}
}

// A connection lost in the middle of a pipeline: what was sent is sent again by
// the store, a few times, and by nobody else.
func TestOneRetryLayerOnACluster(t *testing.T) {
	t.Parallel()
	masters := startFakeCluster(t, func([]string) string { return "" }) // hangs up on each
	s := overFakes(t, masters, Options{})
	if a, err := s.Admit(t.Context(), request("x", tool.NonIdempotent)); err == nil {
		t.Errorf("admitted %v", a.Verdict)
	}
	if n := masters[0].times("evalsha"); n != maxTries {
		t.Errorf("it was sent %d times, want %d", n, maxTries)
	}
}

// What the client library's own pipeline on a Cluster does, which is why it is
// not used: with retries off it still sends everything again when a connection
// is lost, as often as it may be redirected; and with that off too, it follows
// no slot.
func TestTheLibrarysClusterPipeline(t *testing.T) {
	t.Parallel()
	send := func(maxRedirects int, answer func(to *fake) string) (sent int, err error) {
		var masters []*fake
		masters = startFakeCluster(t, func([]string) string { return answer(masters[1]) }, won)
		o := Options{Addrs: []string{masters[0].addr}, Cluster: true}.withDefaults().universal()
		o.MaxRedirects = maxRedirects
		client := redis.NewUniversalClient(o)
		defer client.Close()
		pipe := client.Pipeline()
		_ = pipe.Process(t.Context(), redis.NewCmd(t.Context(), "evalsha", "x", 1, RecordKey("sidecall:", spread(idOn(t, masters, 0)).Key)))
		_, err = pipe.Exec(t.Context())
		return masters[0].times("evalsha"), err
	}
	hangUp := func(*fake) string { return "" }
	moved := func(to *fake) string { return "-MOVED 1 " + to.addr + "\r\n" }
	if n, err := send(0, hangUp); n < 2 || err == nil {
		t.Errorf("retries off: sent %d times, %v", n, err)
	}
	if n, err := send(-1, hangUp); n != 1 || err == nil {
		t.Errorf("redirections off too: sent %d times, %v", n, err)
	}
	if n, err := send(0, moved); n != 1 || err != nil {
		t.Errorf("redirected: sent %d times, %v", n, err)
	}
	if _, err := send(-1, moved); !redis.HasErrorPrefix(err, "MOVED") {
		t.Errorf("redirections off: %v", err)
	}
}

// WAIT goes where the command went, and right after it.
func TestWaitOnACluster(t *testing.T) {
	t.Parallel()
	var acked atomic.Int32
	replicated := func(words []string) string {
		if words[0] == "wait" {
			return fmt.Sprintf(":%d\r\n", acked.Load())
		}
		return replyWon
	}
	masters := startFakeCluster(t, replicated, replicated, replicated)
	s := overFakes(t, masters, Options{WaitReplicas: 2})
	for i, own := range masters {
		req := spread(idOn(t, masters, i))
		acked.Store(1)
		if a, err := s.Admit(t.Context(), req); err == nil || !strings.Contains(err.Error(), "fewer than 2 replicas") {
			t.Errorf("master %d: %v, %v", i, a.Verdict, err)
		}
		if got := own.times("wait"); got != maxTries || got != own.times("evalsha") {
			t.Errorf("master %d was told to wait %d times", i, got)
		}
		acked.Store(2)
		if a, err := s.Admit(t.Context(), req); err != nil || a.Verdict != dedupe.Won {
			t.Errorf("master %d: %v, %v", i, a.Verdict, err)
		}
	}
}

// A master that hangs holds up the commands for itself, and for no other.
func TestAMasterThatHangs(t *testing.T) {
	t.Parallel()
	hang := make(chan struct{})
	var reached sync.WaitGroup
	reached.Add(1)
	once := sync.OnceFunc(reached.Done)
	masters := startFakeCluster(t, func([]string) string { once(); <-hang; return replyWon }, won)
	s := overFakes(t, masters, Options{Timeout: time.Minute})
	stuck, free := spread(idOn(t, masters, 0)), spread(idOn(t, masters, 1))
	var crowd sync.WaitGroup
	for range 50 {
		crowd.Go(func() {
			if _, err := s.Admit(t.Context(), stuck); err != nil {
				t.Error(err)
			}
		})
	}
	reached.Wait()
	for range 50 { // one after the other, and all at once
		if _, err := s.Admit(t.Context(), free); err != nil {
			t.Error(err)
		}
	}
	var others sync.WaitGroup
	for range 50 {
		others.Go(func() {
			if _, err := s.Admit(t.Context(), free); err != nil {
				t.Error(err)
			}
		})
	}
	others.Wait()
	close(hang)
	crowd.Wait()
}

func TestRedirections(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		err    error
		want   string
		asking bool
	}{
		{said("MOVED 3999 127.0.0.1:6381"), "127.0.0.1:6381", false},
		{said("ASK 3999 127.0.0.1:6381"), "127.0.0.1:6381", true},
		{said("MOVED 3999 [::1]:6381"), "[::1]:6381", false},
		{said("MOVED 3999 :6381"), "10.0.0.7:6381", false},
		{said("MOVED 3999"), "", false},
		{said("LOADING"), "", false},
		{&net.OpError{Op: "read", Err: errors.New("reset")}, "", false},
		{context.DeadlineExceeded, "", false},
	} {
		if to := redirectionOf(c.err, "10.0.0.7:7000"); to.addr != c.want || to.asking != c.asking {
			t.Errorf("%v: %+v", c.err, to)
		}
	}
}

// What is wrong with one master of a Cluster is found whatever is wrong with
// the others.
func TestAMasterThatEvictsAmongOthersThatFail(t *testing.T) {
	t.Parallel()
	for name, other := range map[string]string{
		"a replica":    bulk("maxmemory_policy:noeviction\r\nrole:slave\r\n"),
		"loading":      "-LOADING Redis is loading the dataset in memory\r\n",
		"no answer":    "",
		"an odd reply": ":1\r\n",
	} {
		masters := startFakeCluster(t, won, won, won, won)
		for i, m := range masters {
			if m.info = other; i == 2 {
				m.info = bulk("maxmemory_policy:allkeys-lru\r\nrole:master\r\n")
			}
		}
		s := overFakes(t, masters, Options{})
		for range 20 { // which of them answers first is chance
			if err := s.Ping(t.Context()); !errors.Is(err, ErrUnfit) {
				t.Fatalf("%s: Ping: %v", name, err)
			}
		}
		if a, err := s.Admit(t.Context(), spread("x")); !errors.Is(err, ErrUnfit) {
			t.Errorf("%s: admitted %v, %v", name, a.Verdict, err)
		}
	}
}

// A node that hangs, or knows nothing, does not keep the store from asking another
// one where the slots are.
func TestANodeThatCannotTellWhereTheSlotsAre(t *testing.T) {
	t.Parallel()
	hung, err := net.Listen("tcp", "127.0.0.1:0") // takes connections, and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer hung.Close()
	stranger := startFake(t)
	stranger.answer = func([]string) string { return "*0\r\n" }
	for name, node := range map[string]string{"hangs": hung.Addr().String(), "knows none": stranger.addr} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for range 8 { // which of the two is asked first is chance
				masters := startFakeCluster(t, won)
				s := open(t, Options{Addrs: []string{node, masters[0].addr}, Cluster: true, Timeout: 4 * time.Second})
				if a, err := s.Admit(t.Context(), spread("x")); err != nil || a.Verdict != dedupe.Won {
					t.Fatalf("%v, %v", a.Verdict, err)
				}
				if masters[0].times("info") == 0 {
					t.Error("claimed on a server that was not checked")
				}
			}
		})
	}
}

// A store that starts while a master is away serves the slots of the others, and
// is not ready. It is stricter with one that may evict.
func TestAStoreThatStartsWhileAMasterIsAway(t *testing.T) {
	t.Parallel()
	masters := startFakeCluster(t, won, won)
	masters[0].info = ""
	s := overFakes(t, masters, Options{})
	free := spread(idOn(t, masters, 1))
	if a, err := s.Admit(t.Context(), free); err != nil || a.Verdict != dedupe.Won {
		t.Errorf("on the other master: %v, %v", a.Verdict, err)
	}
	if err := s.Ping(t.Context()); err == nil {
		t.Error("ready")
	}
	evicting := startFakeCluster(t, won, won)
	evicting[0].info = bulk("maxmemory_policy:allkeys-lru\r\nrole:master\r\n")
	s = overFakes(t, evicting, Options{})
	if a, err := s.Admit(t.Context(), spread(idOn(t, evicting, 1))); !errors.Is(err, ErrUnfit) {
		t.Errorf("beside one that evicts: %v, %v", a.Verdict, err)
	}
}

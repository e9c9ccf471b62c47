package redisserver

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"
)

// StartReplica starts a server that copies the one at an address, which may be
// a proxy's, and waits until the link is up. With a password, both have it.
func StartReplica(tb testing.TB, of string, options Options) *Server {
	tb.Helper()
	host, port := split(tb, of)
	s := start(tb, options, []string{"replicaof " + host + " " + port})
	s.AwaitInfo("master_link_status", "up")
	(&Server{tb: tb, Addr: of, options: options, certs: s.certs}).awaitReplica(s)
	return s
}

// awaitReplica waits until a replica has acknowledged something, which may be a
// second after it has the data: only then does WAIT count it.
func (s *Server) awaitReplica(replica *Server) {
	s.tb.Helper()
	_, port := split(s.tb, replica.Addr)
	waitFor(s.tb, fmt.Sprintf("%s to hear of its replica %s", s.Addr, replica.Addr), func() bool {
		text, err := s.Try("info", "replication")
		if err != nil {
			return false
		}
		for line := range strings.Lines(fmt.Sprint(text)) {
			if strings.HasPrefix(line, "slave") && strings.Contains(line, ",port="+port+",") {
				return strings.Contains(line, ",state=online,") && !strings.Contains(line, ",offset=0,")
			}
		}
		return false
	})
}

// SentinelOptions of a group of Sentinels; the zero value suits a test.
type SentinelOptions struct {
	// Quorum is how many Sentinels must agree that the master is down. Default:
	// the majority.
	Quorum int
	// FailoverTimeout is how long a failover may take before the next one
	// begins. Default 3 s.
	FailoverTimeout time.Duration
	// Replicas is how many replicas the Sentinels must know before they count
	// as started.
	Replicas int
	// MasterPassword is the password of the master and its replicas.
	MasterPassword string
	// Server are the options of the Sentinels themselves.
	Server Options
}

// StartSentinels starts n Sentinels that watch a master under a name, and waits
// until they know each other, the master and its replicas. They replace nobody
// before AwaitOther: on a busy machine the living are silent too.
func StartSentinels(tb testing.TB, n int, name, master string, options SentinelOptions) []*Server {
	tb.Helper()
	host, port := split(tb, master)
	lines := []string{
		fmt.Sprintf("sentinel monitor %s %s %s %d", name, host, port, or(options.Quorum, n/2+1)),
		"sentinel down-after-milliseconds " + name + " " + millis(neverMissed),
		fmt.Sprintf("sentinel failover-timeout %s %d", name, or(options.FailoverTimeout, 3*time.Second).Milliseconds()),
	}
	if options.MasterPassword != "" {
		lines = append(lines, "sentinel auth-pass "+name+" "+options.MasterPassword)
	}
	if options.Server.Password != "" { // among themselves
		lines = append(lines, "sentinel sentinel-pass "+options.Server.Password)
	}
	sentinels := make([]*Server, n)
	for i := range sentinels {
		sentinels[i] = start(tb, options.Server, lines, "--sentinel")
	}
	for _, s := range sentinels {
		waitFor(tb, fmt.Sprintf("the Sentinel at %s to know %d others and %d replicas", s.Addr, n-1, options.Replicas), func() bool {
			is := s.monitored(name)
			return is["flags"] == "master" && is["num-other-sentinels"] == strconv.Itoa(n-1) && is["num-slaves"] == strconv.Itoa(options.Replicas)
		})
	}
	return sentinels
}

// AwaitOther waits until Sentinels name another master than the one at an
// address, which is dead or hangs: until then they soon miss who is silent.
func AwaitOther(tb testing.TB, sentinels []*Server, name, old string) {
	tb.Helper()
	missAfter := func(silence time.Duration) {
		for _, s := range sentinels {
			s.Do("sentinel", "set", name, "down-after-milliseconds", millis(silence))
		}
	}
	missAfter(soonMissed)
	began, waiting := time.Now(), false
	for _, s := range sentinels {
		waitFor(tb, fmt.Sprintf("the Sentinel at %s to name another master than %s", s.Addr, old), func() bool {
			if !waiting && time.Since(began) > longFailover {
				waiting = true
				missAfter(neverMissed)
			}
			now := s.MasterByName(name)
			return now != "" && now != old
		})
	}
	missAfter(neverMissed)
}

// longFailover is when a failover takes so long that it may never come about as it is.
// Sentinels that have stood still judge nobody for half a minute; after that they find
// that every replica has been without its master for too long, which is ten times as
// long as a master may be silent. Then it may be silent for longer.
const longFailover = 20 * time.Second

// MasterByName asks a Sentinel for the address of a master; empty when it does
// not know, or does not answer.
func (s *Server) MasterByName(name string) string {
	reply, err := s.Try("sentinel", "get-master-addr-by-name", name)
	if err != nil {
		return ""
	}
	pair, _ := reply.([]any)
	if len(pair) != 2 {
		return ""
	}
	return net.JoinHostPort(fmt.Sprint(pair[0]), fmt.Sprint(pair[1]))
}

// monitored is what a Sentinel knows of a master.
func (s *Server) monitored(name string) map[string]string {
	reply, err := s.Try("sentinel", "master", name)
	if err != nil {
		return nil
	}
	pairs, _ := reply.([]any)
	known := map[string]string{}
	for i := 0; i+1 < len(pairs); i += 2 {
		known[fmt.Sprint(pairs[i])] = fmt.Sprint(pairs[i+1])
	}
	return known
}

func split(tb testing.TB, addr string) (host, port string) {
	tb.Helper()
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		tb.Fatal(err)
	}
	return host, port
}

// or is a value, or its default when it is zero.
func or[T comparable](value, otherwise T) T {
	var zero T
	if value == zero {
		return otherwise
	}
	return value
}

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

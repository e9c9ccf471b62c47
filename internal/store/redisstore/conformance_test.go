//go:build e2e

package redisstore

import (
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/store/storetest"
	"github.com/sidecall/sidecall/test/testkit/harness"
	"github.com/sidecall/sidecall/test/testkit/redisserver"
)

// topologies are the kinds of Redis. Each starts the servers and says how they
// are reached.
var topologies = map[string]func(*testing.T) crashJob{
	"standalone":            standalone,
	"standalone, WAIT":      waiting(withReplica),
	"Sentinel":              underSentinels,
	"Sentinel, WAIT":        waiting(underSentinels),
	"Sentinel, TLS":         underSentinelsOverTLS,
	"Cluster":               clustered,
	"Cluster, WAIT":         waiting(clustered),
	"Cluster, TLS":          clusteredOverTLS,
	"TLS":                   overTLS,
	"ACL":                   withLeastRights,
	"ACL, Cluster and WAIT": waiting(clusteredWithLeastRights),
}

// whole is the kind with everything in which one differs from the server of TestOneServer.
// The others have of the suite what depends on that; the whole of it on all of them
// is a proof, test/prove/whole.
const whole = "ACL, Cluster and WAIT"

// What every store must do, on every kind of Redis.
func TestEveryKindOfRedis(t *testing.T) {
	t.Parallel()
	for name, topology := range topologies {
		if name == "standalone" && !harness.Whole() {
			continue // is TestOneServer's
		}
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			options, err := topology(t).options()
			if err != nil {
				t.Fatal(err)
			}
			conformance(t, options, !harness.Whole() && name != whole)
		})
	}
}

// Processes that are killed in the middle of their calls never run one twice,
// on every kind of Redis.
func TestKilledProcessesOfEveryKindOfRedis(t *testing.T) {
	t.Parallel()
	for name, topology := range topologies {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			crash(t, topology(t), 4, nil)
		})
	}
}

// The server is killed too; with its append-only file synced at each write it
// forgets no claim.
func TestKilledServersNeverRunACallTwice(t *testing.T) {
	t.Parallel()
	srv := redisserver.Start(t, redisserver.Options{Args: []string{"--appendonly", "yes", "--appendfsync", "always"}})
	crash(t, crashJob{Addrs: []string{srv.Addr}}, 12, func(*testing.T, int) {
		srv.Kill()
		srv.Restart()
	})
}

// The servers of a Cluster too, one after the other.
func TestKilledMastersNeverRunACallTwice(t *testing.T) {
	t.Parallel()
	cluster := redisserver.StartCluster(t, 3, 3)
	crash(t, crashJob{Addrs: cluster.Addrs(), Cluster: true, WaitReplicas: 1}, 4, func(_ *testing.T, round int) {
		cluster.ReplaceMaster(round * 5461 % 16384)
	})
}

func crash(t *testing.T, job crashJob, rounds int, between func(*testing.T, int)) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	job.Ledger = filepath.Join(t.TempDir(), "ledger")
	text, err := json.Marshal(job)
	if err != nil {
		t.Fatal(err)
	}
	options, err := job.options()
	if err != nil {
		t.Fatal(err)
	}
	storetest.Crash{
		Rounds:  rounds,
		Ledger:  job.Ledger,
		Between: between,
		Command: func() *exec.Cmd {
			cmd := exec.Command(self)
			cmd.Env = append(os.Environ(), crashChild+"="+string(text))
			return cmd
		},
		Open: func(t testing.TB) dedupe.Store { return open(t, options) },
	}.Run(t)
}

func standalone(t *testing.T) crashJob {
	t.Helper()
	return crashJob{Addrs: []string{redisserver.Start(t, redisserver.Options{}).Addr}}
}

func withReplica(t *testing.T) crashJob {
	t.Helper()
	srv := redisserver.Start(t, redisserver.Options{})
	redisserver.StartReplica(t, srv.Addr, redisserver.Options{})
	return crashJob{Addrs: []string{srv.Addr}}
}

func underSentinels(t *testing.T) crashJob {
	t.Helper()
	return watched(t, false)
}

func underSentinelsOverTLS(t *testing.T) crashJob {
	t.Helper()
	return watched(t, true)
}

// watched has data servers with a password, and Sentinels that grant their
// user no more than the documentation says.
func watched(t *testing.T, overTLS bool) crashJob {
	t.Helper()
	data := redisserver.Options{Password: "of-the-data", TLS: overTLS}
	master := redisserver.Start(t, data)
	redisserver.StartReplica(t, master.Addr, data)
	sentinels := redisserver.StartSentinels(t, 3, "main", master.Addr, redisserver.SentinelOptions{
		Replicas: 1, MasterPassword: "of-the-data", Server: redisserver.Options{Password: "of-the-sentinels", TLS: overTLS},
	})
	job := crashJob{MasterName: "main", Password: "of-the-data", SentinelUsername: "watcher", SentinelPassword: "secret"}
	for _, s := range sentinels {
		s.Do(asArgs(documented(t, "watcher"))...)
		job.Addrs = append(job.Addrs, s.Addr)
	}
	if overTLS {
		job.CA, job.Cert, job.Key = master.TLSFiles()
	}
	return job
}

func clustered(t *testing.T) crashJob {
	t.Helper()
	return crashJob{Cluster: true, Addrs: redisserver.StartCluster(t, 3, 3).Addrs()[:2]}
}

func clusteredOverTLS(t *testing.T) crashJob {
	t.Helper()
	cluster := redisserver.StartClusterOf(t, 3, 3, redisserver.Options{TLS: true})
	job := crashJob{Cluster: true, Addrs: cluster.Addrs()}
	job.CA, job.Cert, job.Key = cluster.Nodes[0].TLSFiles()
	return job
}

func overTLS(t *testing.T) crashJob {
	t.Helper()
	srv := redisserver.Start(t, redisserver.Options{TLS: true})
	_, port, err := net.SplitHostPort(srv.Addr)
	if err != nil {
		t.Fatal(err)
	}
	// By its name, which has to be verified.
	job := crashJob{Addrs: []string{net.JoinHostPort("localhost", port)}}
	job.CA, job.Cert, job.Key = srv.TLSFiles()
	return job
}

// waiting is a topology in which a replica has to have every claim.
func waiting(topology func(*testing.T) crashJob) func(*testing.T) crashJob {
	return func(t *testing.T) crashJob {
		t.Helper()
		job := topology(t)
		job.WaitReplicas = 1
		return job
	}
}

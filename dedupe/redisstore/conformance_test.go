//go:build e2e

package redisstore

import (
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/dedupe/storetest"
	"github.com/sidecall/sidecall/prove/redisserver"
)

// What every store must do, on every kind of Redis. A topology starts the
// servers and returns the options that reach them.
func TestConformance(t *testing.T) {
	t.Parallel()
	for name, topology := range map[string]func(*testing.T) Options{
		"standalone":            standalone,
		"standalone, WAIT":      waiting(withReplica),
		"Sentinel":              underSentinels,
		"Sentinel, WAIT":        waiting(underSentinels),
		"Cluster":               clustered,
		"Cluster, WAIT":         waiting(clustered),
		"TLS":                   overTLS,
		"ACL":                   withLeastRights,
		"ACL, Cluster and WAIT": waiting(clusteredWithLeastRights),
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			t.Parallel()
			options := topology(t)
			var n atomic.Int32
			storetest.Run(t, storetest.Harness{
				Lease: 400 * time.Millisecond,
				Open: func(t testing.TB) dedupe.Store {
					// Each case has its own keys on the same servers.
					own := options
					own.KeyPrefix = fmt.Sprintf("sidecall:case-%d:", n.Add(1))
					return open(t, own)
				},
			})
		})
	}
}

func standalone(t *testing.T) Options {
	t.Helper()
	return Options{Addrs: []string{redisserver.Start(t, redisserver.Options{}).Addr}}
}

func withReplica(t *testing.T) Options {
	t.Helper()
	srv := redisserver.Start(t, redisserver.Options{})
	redisserver.StartReplica(t, srv.Addr, redisserver.Options{})
	return Options{Addrs: []string{srv.Addr}}
}

// underSentinels also has the Sentinels ask for a password of their own.
func underSentinels(t *testing.T) Options {
	t.Helper()
	master := redisserver.Start(t, redisserver.Options{Password: "of-the-data"})
	redisserver.StartReplica(t, master.Addr, redisserver.Options{Password: "of-the-data"})
	sentinels := redisserver.StartSentinels(t, 3, "main", master.Addr, redisserver.SentinelOptions{
		Replicas: 1, MasterPassword: "of-the-data", Server: redisserver.Options{Password: "of-the-sentinels"},
	})
	options := Options{MasterName: "main", Password: "of-the-data", SentinelPassword: "of-the-sentinels"}
	for _, s := range sentinels {
		options.Addrs = append(options.Addrs, s.Addr)
	}
	return options
}

func clustered(t *testing.T) Options {
	t.Helper()
	return Options{Cluster: true, Addrs: redisserver.StartCluster(t, 3, 3).Addrs()[:2]}
}

func overTLS(t *testing.T) Options {
	t.Helper()
	srv := redisserver.Start(t, redisserver.Options{TLS: true})
	// A server that speaks TLS by its name, which has to be verified.
	_, port, err := net.SplitHostPort(srv.Addr)
	if err != nil {
		t.Fatal(err)
	}
	return Options{Addrs: []string{net.JoinHostPort("localhost", port)}, TLS: srv.TLSConfig()}
}

// waiting is a topology in which a replica has to have every claim.
func waiting(topology func(*testing.T) Options) func(*testing.T) Options {
	return func(t *testing.T) Options {
		options := topology(t)
		options.WaitReplicas, options.WaitTimeout = 1, 10*time.Second
		return options
	}
}

package redisstore

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sidecall/sidecall/internal/store/storetest"
)

// crashChild is set, to a crashJob, for a process that is to be killed.
const crashChild = "SIDECALL_TEST_REDIS_CRASH_CHILD"

// crashJob is what such a process has to know: the store, as far as its options
// are data, and the ledger.
type crashJob struct {
	Addrs                              []string
	MasterName                         string
	Cluster                            bool
	Username, Password                 string
	SentinelUsername, SentinelPassword string
	WaitReplicas                       int
	// CA, Cert and Key are files; without them no TLS is spoken.
	CA, Cert, Key string
	Ledger        string
}

func (j crashJob) options() (Options, error) {
	o := Options{
		Addrs: j.Addrs, MasterName: j.MasterName, Cluster: j.Cluster,
		Username: j.Username, Password: j.Password,
		SentinelUsername: j.SentinelUsername, SentinelPassword: j.SentinelPassword,
		WaitReplicas: j.WaitReplicas,
		// Long, for the sake of a busy machine.
		WaitTimeout: 10 * time.Second, Timeout: 10 * time.Second,
	}
	if j.CA == "" {
		return o, nil
	}
	ca, err := os.ReadFile(j.CA)
	if err != nil {
		return o, err
	}
	pair, err := tls.LoadX509KeyPair(j.Cert, j.Key)
	if err != nil {
		return o, err
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(ca) {
		return o, errors.New("no certificate in " + j.CA)
	}
	o.TLS = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, Certificates: []tls.Certificate{pair}}
	return o, nil
}

func TestMain(m *testing.M) {
	if addr := os.Getenv(crashChild); addr != "" {
		runCrashChild(addr)
		return
	}
	// go-redis sleeps for a second between two tries to reach a lost server, and
	// notices only then that its client was closed.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

// runCrashChild makes calls until it is killed.
func runCrashChild(text string) {
	var job crashJob
	err := json.Unmarshal([]byte(text), &job)
	var options Options
	if err == nil {
		options, err = job.options()
	}
	if err == nil {
		err = storetest.Work(New(options), job.Ledger, crashLease)
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

const crashLease = 300 * time.Millisecond

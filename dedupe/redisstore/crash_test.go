package redisstore

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/sidecall/sidecall/dedupe/storetest"
)

// crashChild is set, to the address of the server and the path of the ledger,
// for a process that is to be killed.
const crashChild = "SIDECALL_TEST_REDIS_CRASH_CHILD"

// runCrashChild makes calls until it is killed.
func runCrashChild(where string) {
	addr, ledger, _ := strings.Cut(where, " ")
	s, err := New(Options{Addrs: []string{addr}})
	if err == nil {
		err = storetest.Work(s, ledger, crashLease)
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

const crashLease = 300 * time.Millisecond

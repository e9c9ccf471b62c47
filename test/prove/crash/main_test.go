//go:build prove

package crash

import (
	"flag"
	"os"
	"testing"
)

// sidecarsAtOnce is how many workers run side by side. Most of the time they
// wait: for a process to start, for the disk, for a lease to run out.
const sidecarsAtOnce = "16"

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", sidecarsAtOnce); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

package app

import (
	"fmt"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/sidecall/sidecall/test/testkit/harness"
)

// The admin pages answer to the names of this machine and to those that the
// config adds: not to a web page whose name was made to lead here.
func TestTheAdminAddressChecksTheHost(t *testing.T) {
	admin := harness.FreePort(t)
	s := started(t, parsed(t, fmt.Sprintf(`
listen: [%q]
admin: %q
admin_hosts: [metrics.internal]
store: {memory: {}}
`, "unix://"+filepath.Join(t.TempDir(), "s.sock"), admin)), quiet())
	defer func() {
		if err := s.Stop(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	for host, want := range map[string]int{
		admin: http.StatusOK, "localhost:1": http.StatusOK, "metrics.internal": http.StatusOK,
		"rebind.example:8471": http.StatusMisdirectedRequest,
	} {
		for _, page := range []string{"/metrics", "/healthz", "/readyz"} {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+admin+page, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			req.Host = host
			answer, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = answer.Body.Close()
			if answer.StatusCode != want {
				t.Errorf("%s of %s: %d, want %d", page, host, answer.StatusCode, want)
			}
		}
	}
}

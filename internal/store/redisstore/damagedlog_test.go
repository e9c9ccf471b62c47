//go:build e2e

package redisstore

import (
	"fmt"
	"testing"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/tool"
	"github.com/sidecall/sidecall/test/testkit/redisserver"
)

// Nothing but advice rests on a log: one that is damaged, or is something else, keeps no
// step from being done, and is soon what it should be.
func TestALogThatIsDamaged(t *testing.T) {
	t.Parallel()
	srv := redisserver.Start(t, redisserver.Options{})
	s := open(t, Options{Addrs: []string{srv.Addr}})
	for what, spoil := range map[string]func(name string){
		"one byte":              func(name string) { srv.Do("set", name, "x") },
		"zeros":                 func(name string) { srv.Do("set", name, make([]byte, 100)) },
		"an entry that is long": func(name string) { srv.Do("set", name, "\x03\xff\xff") },
		"entries, and a byte":   func(name string) { srv.Do("set", name, "\x03\x00\x01a\x03\x00\x01b\x00") },
		"a last entry of none":  func(name string) { srv.Do("set", name, "\x03\x00\x01a\x00\x00\x01b\x00\x00\x40") },
		"a list":                func(name string) { srv.Do("rpush", name, "x") },
	} {
		key := tool.CallID{Tenant: "acme", Conversation: what, ID: "refused"}
		name := string(appendKey(nil, "sidecall:", "log/", shardOfCall(&key), key.Tenant, key.Conversation, "log"))
		spoil(name)
		note := dedupe.Note{Key: key, Logs: []string{"log"}, Retention: time.Hour}
		var told dedupe.Logs
		for i := range 40 {
			note.Appends = []dedupe.Append{{Log: "log", Entry: fmt.Appendf(nil, "entry %02d", i), Keep: 3}}
			noted, err := s.Note(t.Context(), note)
			if err != nil {
				t.Fatalf("%s: entry %d: %v", what, i, err)
			}
			told = noted.Logs
		}
		if got := fmt.Sprintf("%s", told); got != "[[entry 37 entry 38 entry 39]]" {
			t.Errorf("%s: it has %s", what, got)
		}
		if n, _ := srv.Do("strlen", name).(int64); n > 200 {
			t.Errorf("%s: it has %d bytes", what, n)
		}
	}
}

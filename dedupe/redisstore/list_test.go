package redisstore

import (
	"strings"
	"testing"
	"time"

	"github.com/sidecall/sidecall/dedupe"
)

// unknownRecord is a record as a script stores it, of an Unknown call.
func unknownRecord(owner, name string) string {
	stored := dedupe.Stored{
		Record:    dedupe.Record{State: dedupe.Unknown, Epoch: 1, Owner: owner, Tool: name},
		Retention: time.Hour,
	}
	return string(stored.AppendSealed(nil))
}

// SCAN may name a key more than once; its call is listed once on a page.
func TestAKeyThatIsNamedTwiceIsListedOnce(t *testing.T) {
	t.Parallel()
	one, two := recordKey("sidecall:", request("one", 0).Key), recordKey("sidecall:", request("two", 0).Key)
	f := startFake(t)
	f.answer = func(words []string) string {
		switch words[0] {
		case "scan":
			return "*2\r\n" + bulk("0") + "*4\r\n" + bulk(two) + bulk(one) + bulk(two) + bulk(two)
		case "time":
			return "*2\r\n" + bulk("1") + bulk("0")
		case "getrange":
			return bulk(unknownRecord("alice", "refund")[:4])
		default:
			return bulk(unknownRecord("alice", "refund"))
		}
	}
	s := open(t, Options{Addrs: []string{f.addr}})
	page, err := s.ListUnknown(t.Context(), "")
	if err != nil || page.Next != "" {
		t.Fatal(page.Next, err)
	}
	var ids []string
	for _, call := range page.Calls {
		ids = append(ids, call.Key.ID)
	}
	if got := strings.Join(ids, " "); got != "one two" {
		t.Errorf("listed %q", got)
	}
	if n := f.times("get"); n != 2 {
		t.Errorf("read %d records", n)
	}
}

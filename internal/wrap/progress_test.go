package wrap

import (
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/sidecall/sidecall/internal/backend"
)

// A note of progress is a sign of life of the call whose token it has, until that is over.
func TestProgressIsASignOfLife(t *testing.T) {
	t.Parallel()
	s := &server{Relay: New(Options{}), waiting: waiting{beats: map[string]func(){}}}
	beats := 0
	stop := s.listen(jsontext.Value(`{"progressToken":"a"}`), func(backend.Sign) { beats++ })
	defer s.listen(jsontext.Value(`{}`), func(backend.Sign) { t.Error("a call without a token hears of progress") })()
	say := func(token string) {
		m, err := readLoose([]byte(`{"method":"notifications/progress","params":{"progress":1,"progressToken":` + token + `}}`))
		if err != nil {
			t.Fatal(err)
		}
		s.notified(nil, m)
	}
	say(`"a"`)
	say(`"b"`)
	say(`7`)
	if stop(); beats != 1 {
		t.Errorf("it heard of %d", beats)
	}
	if say(`"a"`); beats != 1 {
		t.Error("it hears when it is over")
	}
}

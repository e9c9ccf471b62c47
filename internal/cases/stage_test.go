package cases

import (
	"reflect"
	"testing"

	"github.com/sidecall/sidecall/internal/config"
)

// Whatever kind of backend there is, a stand-in is asked in its place, or nobody.
func TestNoBackendIsAskedItself(t *testing.T) {
	stand := func(b config.Backend) error {
		s := &stage{tools: targets{&config.Config{Backends: map[string]config.Backend{"b": b}}}, ledger: newLedger(nil), pace: 1}
		err := s.standIn(nil)
		for _, standIn := range s.standIns {
			t.Cleanup(func() { _ = standIn.close() }) // nobody has asked it
		}
		return err
	}
	for field := range reflect.TypeFor[config.Backend]().Fields() {
		if field.Tag.Get("one") != "kind" || field.Name == "Worker" { // whose functions come by themselves
			continue
		}
		var b config.Backend
		reflect.ValueOf(&b).Elem().FieldByIndex(field.Index).Set(reflect.New(field.Type.Elem()))
		if err := stand(b); err != nil {
			t.Errorf("%s: %v", field.Name, err)
		}
	}
	if err := stand(config.Backend{}); err == nil {
		t.Error("one of no kind that is known has a stand-in")
	}
}

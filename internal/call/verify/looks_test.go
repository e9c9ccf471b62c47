package verify

import (
	"fmt"
	"testing"
	"time"

	"github.com/sidecall/sidecall/internal/tool"
)

func TestLooksAreBounded(t *testing.T) {
	var l looks
	of := func(i int) claim { return claim{tool.CallID{ID: fmt.Sprint(i)}, 1} }
	for i := range maxLooks {
		if _, leads := l.join(of(i)); !leads {
			t.Fatal("refused below the bound")
		}
	}
	if made, _ := l.join(of(maxLooks)); made != nil {
		t.Fatal("there is no bound")
	}
	if made, leads := l.join(of(0)); made == nil || leads {
		t.Error("one that is under way can be waited for all the same")
	}
	made, _ := l.join(of(0))
	l.end(of(0), made)
	if made, _ := l.join(of(maxLooks)); made != nil {
		t.Error("what was lately made counts")
	}
	made.until = time.Now().Add(-time.Second)
	if made, leads := l.join(of(maxLooks)); made == nil || !leads {
		t.Error("what is over makes room")
	}
}

package demo

import (
	"fmt"
	"testing"
	"unicode/utf8"

	"github.com/sidecall/sidecall/internal/app"
	sidecallcfg "github.com/sidecall/sidecall/internal/config"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// What stands in every system prompt is short with tools such as the demo's.
func TestTheInstructionsOfTheDemosToolsAreShort(t *testing.T) {
	text := fmt.Sprintf(config, "/tmp/s.sock", "/tmp/s.db", "http://127.0.0.1:1", "http://127.0.0.1:2")
	cfg, err := sidecallcfg.Parse("demo.yaml", []byte(text), sidecallcfg.System())
	if err != nil {
		t.Fatal(err)
	}
	offer, err := app.NewOffer(cfg, "test")
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := offer.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}()
	res, err := offer.GetInstructions(t.Context(), &sidecallv1.GetInstructionsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	n := utf8.RuneCountInString(res.GetText())
	t.Logf("%d characters", n)
	if n == 0 || n > 2500 {
		t.Errorf("%d characters:\n%s", n, res.GetText())
	}
}

package sidecall_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"

	sidecall "github.com/sidecall/sidecall/clients/go"
)

// vector is a message with what every client reads in it and writes for it.
type vector struct {
	Name    string
	Message json.RawMessage
	Refused bool
	Turn    struct {
		Format, ID, Cut, Reason string
		Tokens                  int64
		Messages                []json.RawMessage
		Calls                   []struct{ ID, Tool, Arguments string }
	}
	Results  []json.RawMessage
	Appended []json.RawMessage
}

// loose is a JSON value in which nothing of how it was written is left; a text that is
// none is itself.
func loose(text string) (v any) {
	decoder := json.NewDecoder(bytes.NewReader([]byte(text)))
	decoder.UseNumber()
	if decoder.Decode(&v) != nil {
		return text
	}
	return v
}

func looseAll(raw []json.RawMessage) (all []any) {
	for _, r := range raw {
		all = append(all, loose(string(r)))
	}
	return all
}

// All clients read and write the same.
func TestTurnsOfProviders(t *testing.T) {
	text, err := os.ReadFile("../testdata/turns.json")
	if err != nil {
		t.Fatal(err)
	}
	var vectors []vector
	if err := json.Unmarshal(text, &vectors); err != nil || len(vectors) == 0 {
		t.Fatal(err)
	}
	for _, v := range vectors {
		t.Run(v.Name, func(t *testing.T) {
			turn, err := sidecall.Read(v.Message)
			if v.Refused {
				if !errors.Is(err, sidecall.ErrNoMessage) {
					t.Errorf("read %+v, %v", turn, err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if string(turn.Format) != v.Turn.Format || turn.ID != v.Turn.ID || turn.Cut != v.Turn.Cut || turn.Reason != v.Turn.Reason || turn.Tokens != v.Turn.Tokens {
				t.Errorf("read %+v, want %+v", turn, v.Turn)
			}
			if diff := cmp.Diff(looseAll(v.Turn.Messages), looseAll(turn.Messages)); diff != "" {
				t.Error(diff)
			}
			if len(turn.Calls) != len(v.Turn.Calls) {
				t.Fatalf("%d calls, want %d", len(turn.Calls), len(v.Turn.Calls))
			}
			for i, c := range turn.Calls {
				want := v.Turn.Calls[i]
				if c.ID != want.ID || c.Tool != want.Tool || !cmp.Equal(loose(c.Arguments), loose(want.Arguments)) {
					t.Errorf("call %d is %+v, want %+v", i, c, want)
				}
			}
			results := make([]*sidecall.Result, len(v.Results))
			for i, raw := range v.Results {
				results[i] = &sidecall.Result{}
				if err := protojson.Unmarshal(raw, results[i]); err != nil {
					t.Fatal(err)
				}
			}
			answers := turn.Answers
			if turn.Cut != "" { // answered without a sidecar
				answers = func([]*sidecall.Result) ([]json.RawMessage, error) {
					answer, err := (&sidecall.Client{}).RunTools(t.Context(), v.Message, sidecall.Call{Conversation: "c"})
					return answer.Messages, err
				}
			}
			appended, err := answers(results)
			if diff := cmp.Diff(looseAll(v.Appended), looseAll(appended)); err != nil || diff != "" {
				t.Error(diff, err)
			}
		})
	}
}

// asSDK is the value of an SDK that knows what it was read from.
type asSDK struct{ raw string }

func (s asSDK) RawJSON() string { return s.raw }

func TestAMessageInItsForms(t *testing.T) {
	const text = `{"id":"msg_1","type":"message","role":"assistant","content":[{"type":"tool_use","id":"a","name":"t","input":{"n":1.0}}]}`
	for _, form := range []any{text, []byte(text), json.RawMessage(text), asSDK{text}, loose(text)} {
		turn, err := sidecall.Read(form)
		if err != nil || turn.ID != "msg_1" || len(turn.Calls) != 1 || turn.Calls[0].Arguments != `{"n":1.0}` {
			t.Errorf("%T: %+v, %v", form, turn, err)
		}
	}
	if _, err := sidecall.Read(nil); !errors.Is(err, sidecall.ErrNoMessage) {
		t.Error(err)
	}
}

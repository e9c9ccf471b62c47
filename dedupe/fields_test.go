package dedupe

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/sidecall/sidecall/tool"
)

// What every store has to honour, whatever else it knows.
var mandatory = []string{
	"Key", "Tool", "Effect", "Fingerprint", "Owner", "Lease", "Retention", // of a request
	"Epoch", "State", "Attempts", "Result", // of a settlement, beside some of the above
}

var inAConversation = Key{Conversation: "c-1", ID: "call_0"}

// filled returns a value that is not the zero value of its type.
func filled(t *testing.T, of reflect.Type) reflect.Value {
	t.Helper()
	v := reflect.New(of).Elem()
	switch of.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Struct:
		for i := range of.NumField() {
			v.Field(i).Set(filled(t, of.Field(i).Type))
		}
	case reflect.Array:
		v.Index(0).Set(filled(t, of.Elem()))
	case reflect.Uint8:
		v.SetUint(1)
	case reflect.Pointer:
		v.Set(reflect.New(of.Elem()))
	case reflect.Slice:
		v.Set(reflect.MakeSlice(of, 1, 1))
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	case reflect.String:
		v.SetString("x")
	default:
		t.Fatalf("no value of %v is known", of)
	}
	return v
}

// A field that is added to a request or a settlement is mandatory, or has a bit
// that is set when it is: a store that does not know it would ignore it.
func TestEveryFieldIsMandatoryOrHasABit(t *testing.T) {
	t.Parallel()
	check := func(of any, optional func(v reflect.Value) Fields) {
		kind := reflect.TypeOf(of)
		for i := range kind.NumField() {
			field := kind.Field(i)
			if slices.Contains(mandatory, field.Name) {
				continue
			}
			v := reflect.New(kind).Elem()
			if got := optional(v); got != 0 {
				t.Errorf("an empty %v has %v", kind, got)
			}
			v.Field(i).Set(filled(t, field.Type))
			if got := optional(v).String(); got != field.Name {
				t.Errorf("%v.%s: neither mandatory nor a bit of its own; the bits are %q", kind, field.Name, got)
			}
		}
	}
	check(Request{}, func(v reflect.Value) Fields { r := v.Interface().(Request); return r.optional() })
	check(Settlement{}, func(v reflect.Value) Fields { s := v.Interface().(Settlement); return s.optional() })
}

func TestAStoreRefusesFieldsThatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	charged := asks("alice", tool.ReadOnly)
	charged.Key, charged.Charges = inAConversation, []Charge{{"prompt", 1}}
	drawn := asks("alice", tool.ReadOnly)
	drawn.Key, drawn.Draw = inAConversation, Draw{Counter: "prompt"}
	logged := asks("alice", tool.ReadOnly)
	logged.Key, logged.Logs = inAConversation, []string{"guard"}
	spends := settles("alice", 1, Done)
	spends.Key, spends.Spend = inAConversation, Spend{"prompt", 1}
	appends := settles("alice", 1, Done)
	appends.Key, appends.Appends = inAConversation, []Append{{"guard", []byte("x"), 1}}
	kept := settles("alice", 1, Done)
	kept.Output = &Output{Ref: "ref", TTL: 1e9}
	contends := asks("alice", tool.ReadOnly)
	contends.Key, contends.EffectKey = inAConversation, payment
	frees := settles("alice", 1, Done)
	frees.Frees = payment
	resolves := settles("alice", 1, Done)
	resolves.Resolves = true
	for field, validate := range map[string]func(Knowledge) error{
		"Charges": charged.Validate, "Output": kept.Validate, "Resolves": resolves.Validate,
		"Draw": drawn.Validate, "Logs": logged.Validate, "Spend": spends.Validate, "Appends": appends.Validate,
		"EffectKey": contends.Validate, "Frees": frees.Validate,
	} {
		err := validate(Knowledge{Store: "the old store"})
		if !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "the old store") || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: got %v", field, err)
		}
		if err := validate(everything); err != nil {
			t.Errorf("%s: refused by who knows it: %v", field, err)
		}
	}
}

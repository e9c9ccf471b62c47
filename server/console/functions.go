package console

import (
	"fmt"
	"html/template"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/sidecall/sidecall/internal/provider"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// functions are what the pages call.
var functions = template.FuncMap{
	"verdict": verdict, "instant": instant, "ago": ago, "effect": effect, "callURL": callURL,
	"percent": func(share float64) string { return fmt.Sprintf("%.0f %%", 100*share) },
	"number":  func(n float64) string { return strings.TrimSuffix(fmt.Sprintf("%.1f", n), ".0") },
	"took":    took,
	"plain":   plain,
	"told":    provider.Text,
	"decider": decider,
	"of":      of,
	"class":   func(v sidecallv1.Verdict) string { return strings.ToLower(strings.TrimPrefix(v.String(), "VERDICT_")) },
}

// verdict is a verdict as it is read.
func verdict(v sidecallv1.Verdict) string {
	return strings.ReplaceAll(strings.TrimPrefix(v.String(), "VERDICT_"), "_", " ")
}

func effect(e sidecallv1.Effect) string {
	return strings.ToLower(strings.TrimPrefix(e.String(), "EFFECT_"))
}

// ago is how long ago an instant was, to two digits or so.
func ago(t *timestamppb.Timestamp) string {
	if t == nil {
		return ""
	}
	switch d := max(0, time.Since(t.AsTime())); {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%d days ago", int(d.Hours()/24))
	case d >= time.Hour:
		return fmt.Sprintf("%d h %d min ago", int(d.Hours()), int(d.Minutes())%60)
	case d >= time.Minute:
		return fmt.Sprintf("%d min ago", int(d.Minutes()))
	default:
		return fmt.Sprintf("%d s ago", int(d.Seconds()))
	}
}

// decider names who has decided, by the name that they gave and the user that they are.
func decider(made *sidecallv1.Resolution) string {
	if made.GetClaimedBy() == "" {
		return made.GetBy()
	}
	return fmt.Sprintf("%s (%s)", made.GetClaimedBy(), strings.Trim(made.GetBy(), "()"))
}

// took is a duration to three digits.
func took(d *durationpb.Duration) string {
	if d == nil {
		return ""
	}
	switch t := d.AsDuration(); {
	case t >= time.Second:
		return fmt.Sprintf("%.2f s", t.Seconds())
	default:
		return fmt.Sprintf("%.1f ms", float64(t)/float64(time.Millisecond))
	}
}

// of is a value of an enumeration as it is read.
func of(value fmt.Stringer) string {
	for _, prefix := range []string{"CONVERSATION_EVENT_KIND_", "ERROR_FATE_", "EXECUTION_STATE_", "RECORD_KNOWN_"} {
		if rest, ok := strings.CutPrefix(value.String(), prefix); ok {
			return strings.ToLower(strings.ReplaceAll(rest, "_", " "))
		}
	}
	return value.String()
}

// plain is a JSON text with what cannot be seen, or turns what is seen around, as JSON escapes it:
// what a person allows is what stands there.
func plain(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case unicode.IsPrint(r):
			b.WriteRune(r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

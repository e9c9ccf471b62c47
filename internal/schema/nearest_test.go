package schema_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sidecall/sidecall/internal/schema"
	"github.com/sidecall/sidecall/internal/tool"
)

func TestNearest(t *testing.T) {
	names := []string{"timezone", "order_id", "customer_id", "max_results", "query", "description", "language", "message", "startTime", "urls", "verbose"}
	for want, first := range map[string]string{
		"timezone": "timezone", "time_zone": "timezone", "timeZone": "timezone", "TIMEZONE": "timezone", "tz": "timezone", "timezon": "timezone", "tiemzone": "timezone",
		"orderId": "order_id", "order": "order_id", "id_order": "order_id", "ordr_id": "order_id",
		"maxResults": "max_results", "results_max": "max_results", "max_result": "max_results",
		"desc": "description", "lang": "language", "msg": "message", "q": "query", "start_time": "startTime", "start-time": "startTime", "url": "urls",
		"vebrose": "verbose",
	} {
		if got := schema.Nearest(want, names, 1); len(got) != 1 || got[0] != first {
			t.Errorf("%s: got %v, want %s", want, got, first)
		}
	}
	for _, want := range []string{"", "___", "zebra", "colour", "xy", "path"} {
		if got := schema.Nearest(want, names, 3); len(got) != 0 {
			t.Errorf("%q is not like %v", want, got)
		}
	}
	if got := schema.Nearest("id", names, 5); cmp.Diff([]string{"customer_id", "order_id"}, got) != "" {
		t.Error(got)
	}
	if got := schema.Nearest("anything", names, 0); got != nil {
		t.Error(got)
	}
}

func TestNearestPrefersTheFirstLetter(t *testing.T) {
	if got := schema.Nearest("dsc", []string{"asc", "desc"}, 1); got[0] != "desc" {
		t.Error(got)
	}
	if got := schema.Nearest("hihg", []string{"high", "nigh"}, 1); got[0] != "high" {
		t.Error(got)
	}
}

func TestNearestIsBounded(t *testing.T) {
	long := strings.Repeat("ab_", 100_000)
	if got := schema.Nearest(long, []string{long + "x", "a"}, 1); len(got) != 1 {
		t.Error("no answer for long names")
	}
}

func TestUnknownTool(t *testing.T) {
	shop := []schema.Offered{{Name: "refund"}, {Name: "get_order", Effect: tool.ReadOnly}}
	const choose = "Choose from the listed tools only one that does what you want, or go on without it."
	for _, c := range []struct {
		name    string
		offered []schema.Offered
		want    tool.Error
	}{
		{"getOrder", shop, tool.Error{Constraint: `must name a registered tool: ["get_order","refund"]`, Received: `"getOrder"`, Hint: `Did you mean "get_order"? Use it only if it does what you want; else go on without it.`}},
		{"fly", shop, tool.Error{Constraint: `must name a registered tool: ["get_order","refund"]`, Received: `"fly"`, Hint: choose}},
		{"refund_all", shop, tool.Error{Constraint: `must name a registered tool: ["get_order","refund"]`, Received: `"refund_all"`, Hint: choose}},
		{"fly", nil, tool.Error{Constraint: `must name a registered tool; there is none`, Received: `"fly"`, Hint: `Go on without tools.`}},
	} {
		c.want.Code, c.want.Field = tool.CodeUnknownTool, "tool_name"
		if diff := cmp.Diff(c.want, schema.UnknownTool(c.name, c.offered)); diff != "" {
			t.Error(diff)
		}
	}
	var many []schema.Offered
	for i := range 100 {
		many = append(many, schema.Offered{Name: fmt.Sprintf("tool_%02d", i)})
	}
	many = append(many, schema.Offered{Name: "get_weather", Effect: tool.ReadOnly})
	got := schema.UnknownTool("get_wether", many)
	if !strings.HasPrefix(got.Constraint, `must name a registered tool: ["get_weather","tool_00"`) || !strings.HasSuffix(got.Constraint, " and 81 more") {
		t.Error(got.Constraint)
	}
	if got := schema.UnknownTool(strings.Repeat("x", 10_000), many); len(got.Received) > 210 {
		t.Error("a long name is repeated")
	}
}

package schema_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/sidecall/sidecall/internal/schema"
	"github.com/sidecall/sidecall/internal/tool"
)

// What a name that was made up was to do is not known, so the effect of what is
// suggested for it must not be more than the name says.
func TestASuggestionDoesNoMoreThanTheNameAskedFor(t *testing.T) {
	const none = ""
	for _, c := range []struct {
		asked, have string
		effect      tool.Effect
		want        string
	}{
		{"refund_all", "refund", tool.Keyed, none},
		{"refund_all", "refund", tool.NonIdempotent, none},
		{"fs_read_text_file", "fail", tool.NonIdempotent, none},
		{"fs_read_text_file", "fail", tool.ReadOnly, none},
		{"get", "get_order", tool.ReadOnly, none},
		{"r", "refund", tool.ReadOnly, none},
		// a name that asks to look is no order to act
		{"get_order", "set_order", tool.Idempotent, none},
		{"get_refund", "refund", tool.NonIdempotent, none},
		{"list_orders", "last_orders", tool.NonIdempotent, none},
		{"read_file", "lead_file", tool.NonIdempotent, none},
		{"search_and_delete", "search_and_deleted", tool.NonIdempotent, "search_and_deleted"}, // the very same verb
		{"get_ordr", "get_order", tool.NonIdempotent, "get_order"},
		{"getOrder", "get_order", tool.NonIdempotent, "get_order"},
		// opposites are spelt alike
		{"lock_door", "unlock_door", tool.Idempotent, none},
		{"enable_user", "disable_user", tool.Idempotent, none},
		{"attach_disk", "detach_disk", tool.NonIdempotent, none},
		{"send_money", "lend_money", tool.NonIdempotent, none},
		{"pay_v1", "pay_v2", tool.NonIdempotent, none},
		{"order2", "order3", tool.NonIdempotent, none},
		{"delete_order", "delete_all_orders", tool.NonIdempotent, none},
		// really near
		{"create_ordr", "create_order", tool.NonIdempotent, "create_order"},
		{"createOrder", "create-order", tool.NonIdempotent, "create-order"},
		{"transfre_moneys", "transfer_money", tool.NonIdempotent, "transfer_money"},
		{"refund_orders", "refund_order", tool.Keyed, "refund_order"},
		// what only looks may be suggested from further away
		{"orders_list", "list_order", tool.ReadOnly, "list_order"},
		{"fs_read_text_file", "read_text_file", tool.ReadOnly, "read_text_file"},
		{"fs_read_text_file", "files_read_text_file", tool.ReadOnly, "files_read_text_file"},
		{"weather", "get_weather", tool.ReadOnly, "get_weather"},
	} {
		got := schema.Meant(c.asked, []schema.Offered{{Name: c.have, Effect: c.effect}}, 1)
		if strings.Join(got, ",") != c.want {
			t.Errorf("%s: of a %s tool %s, %v is suggested, want %q", c.asked, c.effect, c.have, got, c.want)
		}
		said := schema.UnknownTool(c.asked, []schema.Offered{{Name: c.have, Effect: c.effect}})
		if strings.Contains(said.Hint, "Call ") || strings.Contains(said.Hint, c.have) && !strings.Contains(said.Hint, `Did you mean "`+c.have+`"?`) {
			t.Errorf("%s: an order: %s", c.asked, said.Hint)
		}
	}
}

func TestOfEquallyNearToolsTheOneWithoutAnEffectIsSuggestedFirst(t *testing.T) {
	offered := []schema.Offered{{Name: "ordera"}, {Name: "orderb", Effect: tool.ReadOnly}}
	if got := schema.Meant("orderc", offered, 2); !slices.Equal(got, []string{"orderb", "ordera"}) {
		t.Error(got)
	}
}

func TestWhatIsNamedInsteadDoesNoMoreHarm(t *testing.T) {
	offered := []schema.Offered{{Name: "order_get", Effect: tool.ReadOnly}, {Name: "order_put", Effect: tool.Idempotent}, {Name: "order_pay"}}
	for effect, want := range map[tool.Effect][]string{
		tool.ReadOnly:      {"order_get"},
		tool.Idempotent:    {"order_get", "order_put"},
		tool.NonIdempotent: {"order_get", "order_put", "order_pay"},
	} {
		got := schema.Instead(schema.Offered{Name: "order", Effect: effect}, offered, 3)
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", effect, got, want)
		}
	}
}

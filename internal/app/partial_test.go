package app

import (
	"strings"
	"testing"

	"github.com/sidecall/sidecall/internal/config"
)

// Rules for items that cannot be used are found with their place, all of them, also
// those for a tool that a backend is yet to discover.
func TestBadRulesForItems(t *testing.T) {
	tool := func(partial string) string {
		return aBackend + "  a:\n    backend: sh\n    exec: {argv: [ls]}\n    partial:\n" + partial
	}
	for text, want := range map[string]string{
		tool("      items: size(\n      ok: itme.ok\n      id: item.\n      content: nope\n      error: indx\n"):             "8:14: tools.a.partial.items|9:11: tools.a.partial.ok|10:11: tools.a.partial.id|11:16: tools.a.partial.content|12:14: tools.a.partial.error",
		tool("      items: size(result)\n      ok: index\n"):                                                                 "8:14: tools.a.partial.items|9:11: tools.a.partial.ok",
		tool("      items: item.list\n      ok: done()\n"):                                                                   "8:14: tools.a.partial.items|9:11: tools.a.partial.ok",
		tool("      items: result\n      ok: done(item) == 1\n"):                                                             "9:11: tools.a.partial.ok",
		tool("      items: result.list\n      ok: done(item)\n      id: item.id\n"):                                          "",
		"backends:\n  m:\n    mcp: {command: [ls]}\n    tools:\n      send: {partial: {items: result, ok: \"dun(item)\"}}\n": "5:43: backends.m.tools.send.partial.ok",
	} {
		all := checked(t, text)
		if got := strings.Join(of(all, config.RuleExpression), "|"); got != want {
			t.Errorf("%s\nis found at %q, want %q, of %v", text, got, want, config.Problems(all))
		}
	}
	for text, want := range map[string]string{
		tool("      items: result\n"):                                        `7:5: tools.a.partial: "ok" is missing`,
		tool("      ok: done(item)\n"):                                       `7:5: tools.a.partial: "items" is missing`,
		tool("      items: result\n      ok: item.ok\n      ids: item.id\n"): `10:7: tools.a.partial.ids: unknown key; did you mean "id"?`,
	} {
		all := config.Problems(checked(t, text)).Error()
		if !strings.Contains(all, want) {
			t.Errorf("%s\nsays %s, want %s", text, all, want)
		}
	}
}

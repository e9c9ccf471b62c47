package server

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/sidecall/sidecall/internal/catalog"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/test/testkit/calltest"
)

// A list of 9 MB, with a tool in it that no message could hold, is read by a
// client with default settings: page by page, and in part by one that knows of no
// pages.
func TestALongListOfToolsIsRead(t *testing.T) {
	s := calltest.New(t)
	var names []string
	var routes []*catalog.Route
	for i := range 900 {
		name := fmt.Sprintf("tool_%04d", i)
		text := 10_000
		if i == 500 {
			text = 6 << 20
		}
		names = append(names, name)
		routes = append(routes, &catalog.Route{Tool: tool.Tool{
			Name: name, Effect: tool.ReadOnly, Description: strings.Repeat("d", text), InputSchema: json.RawMessage(`{"type":"object"}`),
		}})
	}
	s.Generation.Set("mcp", routes)
	s.Generation.SetDown("gone", "no such host")
	client := dial(t, s)
	for _, size := range []int32{0, 7, 100, 5000} {
		var got []string
		pages, token := 0, ""
		for ; pages == 0 || token != ""; pages++ {
			page, err := client.ListTools(t.Context(), &sidecallv1.ListToolsRequest{PageSize: size, PageToken: token})
			if err != nil {
				t.Fatal(err)
			}
			if len(page.GetTools()) == 0 || size > 0 && len(page.GetTools()) > int(size) {
				t.Fatalf("a page of %d tools", len(page.GetTools()))
			}
			if down := len(page.GetUnavailableBackends()); (down == 1) != (token == "") {
				t.Errorf("page %d tells of %d backends", pages, down)
			}
			for _, one := range page.GetTools() {
				got = append(got, one.GetName())
			}
			token = page.GetNextPageToken()
		}
		if !slices.Equal(got, names) || pages < 3 {
			t.Errorf("page_size %d: %d tools on %d pages", size, len(got), pages)
		}
	}
}

// The tools of the next page are those behind the last one, whatever has come and
// gone meanwhile.
func TestAListThatChangesBetweenPages(t *testing.T) {
	route := func(name string) *catalog.Route {
		return &catalog.Route{Tool: tool.Tool{Name: name, Effect: tool.ReadOnly, InputSchema: json.RawMessage(`{}`)}}
	}
	s := calltest.New(t)
	s.Generation.Set("mcp", []*catalog.Route{route("a"), route("c"), route("e")})
	first, err := service(s).ListTools(t.Context(), &sidecallv1.ListToolsRequest{PageSize: 2})
	if err != nil {
		t.Fatal(err)
	}
	s.Generation.Set("mcp", []*catalog.Route{route("a"), route("b"), route("d"), route("e")})
	second, err := service(s).ListTools(t.Context(), &sidecallv1.ListToolsRequest{PageSize: 2, PageToken: first.GetNextPageToken()})
	if err != nil || len(second.GetTools()) != 2 || second.GetTools()[0].GetName() != "d" || second.GetNextPageToken() != "" {
		t.Errorf("%v, %v", second, err)
	}
	for _, req := range []*sidecallv1.ListToolsRequest{{PageToken: "!"}, {PageSize: -1}} {
		if _, err := service(s).ListTools(t.Context(), req); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%v: %v", req, err)
		}
	}
}

// A model is taught of the tools that its profile may call, over the wire; and who
// asks is told whose tools are still missing.
func TestInstructionsAreOfAProfilesTools(t *testing.T) {
	s := calltest.New(t, calltest.NewRoute(t, "get_order", tool.ReadOnly, nil), calltest.NewRoute(t, "pay", tool.NonIdempotent, nil))
	s.Generation.Expect("files", catalog.Undiscovered{})
	client := dial(t, s)
	for profile, pays := range map[string]bool{"": true, "all": true, "narrow": false} {
		res, err := client.GetInstructions(t.Context(), &sidecallv1.GetInstructionsRequest{Profile: profile})
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(res.GetText(), "OUTCOME_UNKNOWN") || strings.Contains(res.GetText(), "pay") != pays {
			t.Errorf("profile %q: %s", profile, res.GetText())
		}
		if missing := res.GetUnavailableBackends(); len(missing) != 1 || missing[0].GetName() != "files" || !missing[0].GetUndiscovered() {
			t.Errorf("profile %q: %v", profile, missing)
		}
	}
	_, err := client.GetInstructions(t.Context(), &sidecallv1.GetInstructionsRequest{Profile: "nobody"})
	if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "nobody") {
		t.Error(err)
	}
	only := &Service{Executor: s.Executor, Offered: []string{"narrow"}}
	if _, err := only.GetInstructions(t.Context(), &sidecallv1.GetInstructionsRequest{Profile: "all"}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("a profile that the listener does not offer: %v", err)
	}
}

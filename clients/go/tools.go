package sidecall

import (
	"context"
	"encoding/json"
	"fmt"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// Tools are the tools that a profile may call, as a provider takes them in its tools
// parameter; an empty profile is the sidecar's default one. While the sidecar is away it is
// asked again, for 30 s.
func (c *Client) Tools(ctx context.Context, format Format, profile string) ([]json.RawMessage, error) {
	var tools []json.RawMessage
	request := &sidecallv1.ListToolsRequest{Profile: profile, Provider: string(format)}
	err := list(request, func() (*sidecallv1.ListToolsResponse, error) {
		return insist(ctx, c, func() (*sidecallv1.ListToolsResponse, error) { return c.service.ListTools(ctx, request) })
	}, func(page *sidecallv1.ListToolsResponse) { tools = append(tools, rawOf(page.GetDefinitionsJson())...) })
	return tools, err
}

// ListTools lists what a profile may call, sorted by name. Tools of a backend that has
// never been reached are not among them: Stub().ListTools says which backends are down.
func (c *Client) ListTools(ctx context.Context, profile string) ([]*Tool, error) {
	var tools []*Tool
	request := &sidecallv1.ListToolsRequest{Profile: profile}
	err := list(request, func() (*sidecallv1.ListToolsResponse, error) {
		return c.service.ListTools(ctx, request)
	}, func(page *sidecallv1.ListToolsResponse) { tools = append(tools, page.GetTools()...) })
	return tools, err
}

// list asks for the pages of a list of tools.
func list(request *sidecallv1.ListToolsRequest, ask func() (*sidecallv1.ListToolsResponse, error), take func(*sidecallv1.ListToolsResponse)) error {
	for seen := map[string]bool{"": true}; ; seen[request.GetPageToken()] = true {
		page, err := ask()
		if err != nil {
			return err
		}
		take(page)
		switch request.PageToken = page.GetNextPageToken(); {
		case request.GetPageToken() == "":
			return nil
		case seen[request.GetPageToken()]:
			return fmt.Errorf("%w: the pages of the list of tools go round in circles", ErrBrokenAnswer)
		}
	}
}

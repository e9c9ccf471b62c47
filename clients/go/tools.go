package sidecall

import (
	"context"
	"encoding/json"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// Tools are the tools that a profile may call, as a provider takes them in its tools
// parameter; an empty profile is the sidecar's default one.
func (c *Client) Tools(ctx context.Context, format Format, profile string) ([]json.RawMessage, error) {
	var tools []json.RawMessage
	err := c.list(ctx, &sidecallv1.ListToolsRequest{Profile: profile, Provider: string(format)}, func(page *sidecallv1.ListToolsResponse) {
		tools = append(tools, rawOf(page.GetDefinitionsJson())...)
	})
	return tools, err
}

// ListTools lists what a profile may call, sorted by name. Tools of a backend that has
// never been reached are not among them: Stub().ListTools says which backends are down.
func (c *Client) ListTools(ctx context.Context, profile string) ([]*Tool, error) {
	var tools []*Tool
	err := c.list(ctx, &sidecallv1.ListToolsRequest{Profile: profile}, func(page *sidecallv1.ListToolsResponse) {
		tools = append(tools, page.GetTools()...)
	})
	return tools, err
}

// list asks for the pages of a list of tools.
func (c *Client) list(ctx context.Context, request *sidecallv1.ListToolsRequest, take func(*sidecallv1.ListToolsResponse)) error {
	for {
		page, err := c.service.ListTools(ctx, request)
		if err != nil {
			return err
		}
		take(page)
		if request.PageToken = page.GetNextPageToken(); request.GetPageToken() == "" {
			return nil
		}
	}
}

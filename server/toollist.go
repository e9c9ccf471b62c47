package server

import (
	"encoding/base64"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/sidecall/sidecall/internal/provider"
	"github.com/sidecall/sidecall/internal/tool"
	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

const (
	// maxPage bounds the tools of one page, in bytes: what a gRPC client receives
	// unless told otherwise is 4 MiB, and the first page has the backends that are
	// down too.
	maxPage = 3 << 20
	// toolOverhead is what a tool takes in a page beside itself, in bytes.
	toolOverhead = 5
	// maxShortened bounds the description of a tool that is too large for a page, in
	// characters.
	maxShortened = 100_000
)

// toolPage is a page of tools in the making.
type toolPage struct {
	most        int             // 0 for as many as fit
	provider    provider.Format // empty for what is known of them
	tools       []*sidecallv1.Tool
	definitions []string // in the place of the tools
	last        string   // the name of the last one
	bytes       int
	more        bool
}

// add adds a tool; false when the page is full without it.
func (p *toolPage) add(t *sidecallv1.Tool) bool {
	definition := p.definition(t)
	if p.size(t, definition) > maxPage {
		shorten(t)
		definition = p.definition(t)
	}
	size := p.size(t, definition)
	if p.last != "" && p.bytes+size > maxPage || p.most > 0 && len(p.tools)+len(p.definitions) == p.most {
		p.more = true
		return false
	}
	if p.provider == "" {
		p.tools = append(p.tools, t)
	} else {
		p.definitions = append(p.definitions, definition)
	}
	p.last, p.bytes = t.GetName(), p.bytes+size
	return true
}

// definition is the tool as the provider of the page takes it.
func (p *toolPage) definition(t *sidecallv1.Tool) string {
	if p.provider == "" {
		return ""
	}
	definition, err := provider.Definition(p.provider, t)
	if err != nil { // its schema is JSON, and the provider is known
		panic(err)
	}
	return string(definition)
}

func (p *toolPage) size(t *sidecallv1.Tool, definition string) int {
	if p.provider == "" {
		return proto.Size(t) + toolOverhead
	}
	return len(definition) + toolOverhead
}

// shorten makes a tool fit that no page could hold: it is listed all the same.
// Calls are checked against its whole schema.
func shorten(t *sidecallv1.Tool) {
	t.OutputSchemaJson = ""
	if proto.Size(t)+toolOverhead > maxPage {
		t.Description = tool.Shorten(t.GetDescription(), maxShortened)
	}
	if proto.Size(t)+toolOverhead > maxPage {
		t.InputSchemaJson = `{"type":"object"}`
	}
	if proto.Size(t)+toolOverhead > maxPage {
		t.Annotations = nil
	}
}

// response is the page; it ends where the next one begins.
func (p *toolPage) response() *sidecallv1.ListToolsResponse {
	res := &sidecallv1.ListToolsResponse{Tools: p.tools, DefinitionsJson: p.definitions}
	if p.more {
		res.NextPageToken = base64.RawURLEncoding.EncodeToString([]byte(p.last))
	}
	return res
}

// behind returns the name behind which a page begins; empty for the first.
func behind(req *sidecallv1.ListToolsRequest) (after string, err error) {
	if req.GetPageSize() < 0 {
		return "", status.Error(codes.InvalidArgument, "page_size: must not be negative; 0 means as many as fit")
	}
	name, err := base64.RawURLEncoding.DecodeString(req.GetPageToken())
	if err != nil {
		return "", status.Error(codes.InvalidArgument, "page_token: is none that ListTools gave; send next_page_token of the page before")
	}
	return string(name), nil
}

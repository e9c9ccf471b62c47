// Package rest is the front for programs that have neither gRPC nor MCP: a POST of JSON makes a
// call, and is answered with what an ExecuteToolResponse says. It is a client of ToolService and
// nothing more, so that a call gets here what it gets over gRPC.
package rest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
)

// Handler serves POST /v1/tools/NAME, which makes a call, and GET /v1/tools, a page of the tools
// that there are. A request in a browser's page of another origin is refused.
func Handler(tools sidecallv1.ToolServiceClient) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/tools/{name}", func(w http.ResponseWriter, r *http.Request) {
		call, err := read(r)
		if err != nil {
			refuse(w, status.New(codes.InvalidArgument, err.Error()))
			return
		}
		res, err := tools.ExecuteTool(traced(r), call)
		answer(w, res, err)
	})
	mux.HandleFunc("GET /v1/tools", func(w http.ResponseWriter, r *http.Request) {
		res, err := tools.ListTools(traced(r), &sidecallv1.ListToolsRequest{
			Profile: r.FormValue("profile"), PageToken: r.FormValue("page_token"),
		})
		answer(w, res, err)
	})
	mux.HandleFunc("/", nowhere)
	origins := http.NewCrossOriginProtection()
	origins.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		Error(w, "a cross-origin request of a browser's page is refused", http.StatusForbidden)
	}))
	return origins.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked, err := url.QueryUnescape(r.URL.RawQuery)
		switch at := r.URL.EscapedPath(); {
		case err != nil || !utf8.ValidString(r.URL.Path+asked):
			refuse(w, status.New(codes.InvalidArgument, "the path and the query are text in UTF-8, percent-encoded"))
		case at != path.Clean(at): // which the mux would send elsewhere
			nowhere(w, r)
		default:
			mux.ServeHTTP(w, r)
		}
	}))
}

func nowhere(w http.ResponseWriter, _ *http.Request) {
	Error(w, "POST /v1/tools/NAME makes a call, GET /v1/tools lists the tools; nothing else is here", http.StatusMethodNotAllowed)
}

// read reads the call that a request makes: the members of ExecuteToolRequest, with arguments, as
// the model wrote them, in the place of arguments_json, and the tool's name in the path.
func read(r *http.Request) (*sidecallv1.ExecuteToolRequest, error) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return nil, errors.New("Content-Type: a call is application/json")
	}
	arguments, rest, err := apart(r.Body)
	if err != nil {
		return nil, fmt.Errorf("the body: %w", err)
	}
	call := new(sidecallv1.ExecuteToolRequest)
	if err := protojson.Unmarshal(rest, call); err != nil {
		_, why, _ := strings.Cut(err.Error(), "): ") // before it is a place in what was made of the body
		return nil, fmt.Errorf("the body: %s", why)
	}
	switch name := r.PathValue("name"); {
	case call.GetToolName() != "" && call.GetToolName() != name:
		return nil, fmt.Errorf("tool_name: the body says %q, and the path %q", call.GetToolName(), name)
	case call.GetArgumentsJson() != "" && arguments != nil:
		return nil, errors.New("arguments: they are there twice, also as arguments_json")
	case arguments != nil:
		call.ArgumentsJson = string(arguments)
		fallthrough
	default:
		call.ToolName = name
	}
	return call, nil
}

// apart takes the arguments out of a body, byte for byte: what is wrong within them is for the
// model, and is said by the call.
func apart(body io.Reader) (arguments jsontext.Value, rest []byte, err error) {
	from := jsontext.NewDecoder(body, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if from.PeekKind() != '{' {
		return nil, nil, errors.New("it is one JSON object, with the arguments in its member arguments")
	}
	_, _ = from.ReadToken()
	var others bytes.Buffer
	others.WriteByte('{')
	for from.PeekKind() == '"' {
		name, err := from.ReadValue()
		if err != nil {
			return nil, nil, err
		}
		is := string(name) == `"arguments"`
		if !is && others.Len() > 1 {
			others.WriteByte(',')
		}
		if !is {
			others.Write(name)
			others.WriteByte(':')
		}
		value, err := from.ReadValue()
		switch {
		case err != nil:
			return nil, nil, err
		case is && arguments != nil:
			return nil, nil, errors.New("it has arguments twice")
		case is:
			arguments = value.Clone()
		default:
			others.Write(value)
		}
	}
	if _, err := from.ReadToken(); err != nil {
		return nil, nil, err
	}
	if _, err := from.ReadToken(); !errors.Is(err, io.EOF) {
		return nil, nil, errors.New("something stands after the object")
	}
	others.WriteByte('}')
	return arguments, others.Bytes(), nil
}

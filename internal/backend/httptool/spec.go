package httptool

import (
	"fmt"
	"maps"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"

	"github.com/sidecall/sidecall/internal/tool"
)

// Spec says which request a call of one tool becomes. Every map goes from a
// name in the request to the name of an argument. An argument that is absent or
// null is left out, except in the path, where it is refused.
type Spec struct {
	// Method is GET, HEAD, POST, PUT, PATCH or DELETE.
	Method string
	// Path is put after the base URL. {name} stands for an argument, escaped;
	// it fills one path segment or a part of one. A fixed query may follow
	// after "?".
	Path string
	// Query parameters. A list argument is sent as one parameter per item. nil,
	// for a method without a body: every argument not used elsewhere, under its
	// own name.
	Query map[string]string
	// Headers sent besides those of the backend, which they may not replace.
	Headers map[string]string
	// Body is nil for the default: none for GET, HEAD and DELETE, and for the
	// others a JSON object of all arguments not used elsewhere.
	Body *Body
	// IdempotencyHeader carries Invocation.IdempotencyKey; empty for none.
	IdempotencyHeader string
}

// Body is a JSON body. The zero value is no body.
type Body struct {
	// Arg is the argument that is the whole body.
	Arg string
	// Members are the members of the body, an object. Not with Arg.
	Members map[string]string
}

// Unused returns which of the arguments a spec does not send anywhere, in the
// order given. A tool whose schema has such an argument looks as if it obeyed
// it and does not.
func (s Spec) Unused(arguments []string) []string {
	if s.sendsRest() {
		return nil
	}
	used := s.used()
	var unused []string
	for _, name := range arguments {
		if !used[name] {
			unused = append(unused, name)
		}
	}
	return unused
}

// PathArguments are the arguments without which a call has no path, in order.
func (s Spec) PathArguments() []string {
	path, err := parsePath(s.Path)
	if err != nil {
		return nil
	}
	return path.arguments()
}

// sendsRest reports whether arguments that are not named go somewhere.
func (s Spec) sendsRest() bool {
	return s.Body == nil && (takesBody(s.Method) || s.Query == nil)
}

// used are the arguments that the spec names.
func (s Spec) used() map[string]bool {
	used := make(map[string]bool)
	for _, arguments := range []map[string]string{s.Query, s.Headers} {
		for _, argument := range arguments {
			used[argument] = true
		}
	}
	if s.Body != nil {
		for _, argument := range s.Body.Members {
			used[argument] = true
		}
		if s.Body.Arg != "" {
			used[s.Body.Arg] = true
		}
	}
	if path, err := parsePath(s.Path); err == nil {
		for _, argument := range path.arguments() {
			used[argument] = true
		}
	}
	return used
}

func takesBody(method string) bool {
	return method == http.MethodPost || method == http.MethodPut || method == http.MethodPatch
}

// endpoint is a compiled Spec. It is immutable.
type endpoint struct {
	origin  *origin
	method  string
	path    *path
	query   []binding // names escaped
	headers []binding // names canonical
	header  http.Header
	// idempotencyHeader is canonical; empty for none.
	idempotencyHeader string

	body    bodyKind
	bodyArg string
	members []member
	// restInQuery: the arguments that the spec does not name go into the query.
	restInQuery bool
	used        map[string]bool // by name; what rest leaves out
	// fixed are the query parameters of the path, as queryName has them: no argument
	// may be one of them.
	fixed    map[string]bool
	prebuilt *http.Request // what every request has in common
}

// binding is a place in the request that an argument fills.
type binding struct{ name, argument string }

// member is a member of a body with its name as JSON, colon included.
type member struct{ key, argument string }

type bodyKind uint8

const (
	bodyNone bodyKind = iota
	bodyArgument
	bodyMembers
	bodyRest
)

func compile(o *origin, spec Spec) (*endpoint, error) {
	switch spec.Method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete:
	default:
		return nil, fmt.Errorf("method %q: want GET, HEAD, POST, PUT, PATCH or DELETE", spec.Method)
	}
	path, err := parsePath(spec.Path)
	if err != nil {
		return nil, err
	}
	at := &endpoint{origin: o, method: spec.Method, path: path, used: spec.used(), fixed: path.fixed()}
	for _, name := range slices.Sorted(maps.Keys(spec.Query)) {
		if at.fixed[queryName(name)] {
			return nil, fmt.Errorf("query: %s is fixed in the path", name)
		}
		at.query = append(at.query, binding{string(appendEscaped(nil, name)), spec.Query[name]})
	}
	if err := at.compileHeaders(spec); err != nil {
		return nil, err
	}
	if err := at.compileBody(spec); err != nil {
		return nil, err
	}
	at.prebuild()
	return at, nil
}

func (at *endpoint) compileBody(spec Spec) error {
	switch {
	case spec.Body == nil && takesBody(spec.Method):
		at.body = bodyRest
	case spec.Body == nil && spec.Query == nil:
		at.restInQuery = true
	case spec.Body == nil:
	case spec.Method == http.MethodHead && (spec.Body.Arg != "" || spec.Body.Members != nil):
		return fmt.Errorf("body: a HEAD request has none")
	case spec.Body.Arg != "" && spec.Body.Members != nil:
		return fmt.Errorf("body: either one argument or members, not both")
	case spec.Body.Arg != "":
		at.body, at.bodyArg = bodyArgument, spec.Body.Arg
	case spec.Body.Members != nil:
		at.body = bodyMembers
		for _, name := range slices.Sorted(maps.Keys(spec.Body.Members)) {
			key := append(tool.AppendQuoted(nil, name), ':')
			at.members = append(at.members, member{string(key), spec.Body.Members[name]})
		}
	}
	return nil
}

// compileHeaders checks that no argument can replace a header of the operator
// or one that frames the request.
func (at *endpoint) compileHeaders(spec Spec) error {
	for _, name := range slices.Sorted(maps.Keys(spec.Headers)) {
		canonical, err := at.origin.freeHeader(name)
		if err != nil {
			return fmt.Errorf("headers: %w", err)
		}
		if slices.ContainsFunc(at.headers, func(b binding) bool { return b.name == canonical }) {
			return fmt.Errorf("headers: %s is there twice", canonical)
		}
		at.headers = append(at.headers, binding{canonical, spec.Headers[name]})
	}
	if spec.IdempotencyHeader == "" {
		return nil
	}
	canonical, err := at.origin.freeHeader(spec.IdempotencyHeader)
	if err != nil {
		return fmt.Errorf("idempotency_header: %w", err)
	}
	if slices.ContainsFunc(at.headers, func(b binding) bool { return b.name == canonical }) {
		return fmt.Errorf("idempotency_header: %s is filled by an argument", canonical)
	}
	at.idempotencyHeader = canonical
	return nil
}

// prebuild makes what all requests of the tool share.
func (at *endpoint) prebuild() {
	at.header = at.origin.header.Clone()
	if at.body != bodyNone && at.header.Get("Content-Type") == "" {
		at.header.Set("Content-Type", "application/json")
	}
	if at.header.Get("User-Agent") == "" {
		at.header.Set("User-Agent", "sidecall")
	}
	at.prebuilt = &http.Request{
		Method: at.method, Host: at.origin.host,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
	if !takesBody(at.method) {
		at.prebuilt.TransferEncoding = identity
	}
}

// origin is the part of a URL that is the same for all tools of a backend, and
// the headers that are.
type origin struct {
	scheme string
	// authority is what is connected to; host is what the Host header says.
	authority, host string
	// address and port are the authority taken apart, and shown is scheme, authority and
	// prefix as a span may have them.
	address string
	port    int
	shown   string
	// prefix is the escaped path of the base URL, without a slash at its end.
	prefix string
	header http.Header
	// absolute: requests go to a proxy, which has to be told the whole URL.
	absolute bool
}

// url is what is asked for. Opaque is sent as it is: what is escaped in the
// target stays escaped. net/http makes the absolute form, which a proxy needs,
// only of URLs without it, or when it begins with "//". A target does not: its
// first segment is never empty.
func (o *origin) url(target string) url.URL {
	if o.absolute {
		target = "//" + o.authority + target
	}
	return url.URL{Scheme: o.scheme, Host: o.authority, Opaque: target}
}

func newOrigin(cfg Config) (*origin, error) {
	base, err := url.Parse(cfg.BaseURL)
	switch {
	case err != nil:
		return nil, fmt.Errorf("base_url: %w", err)
	case base.Scheme != "http" && base.Scheme != "https":
		return nil, fmt.Errorf("base_url %q: want http://host or https://host", cfg.BaseURL)
	case base.Hostname() == "":
		return nil, fmt.Errorf("base_url %q: the host is missing", cfg.BaseURL)
	case base.User != nil:
		// The URL is not shown: it holds a password.
		return nil, fmt.Errorf("base_url: it has a user in it; set an Authorization header instead")
	case base.RawQuery != "" || base.ForceQuery || base.Fragment != "":
		return nil, fmt.Errorf("base_url %q: a query or fragment has no place in it", cfg.BaseURL)
	}
	o := &origin{
		scheme: base.Scheme, authority: base.Host, host: base.Host,
		prefix: strings.TrimRight(base.EscapedPath(), "/"),
		header: make(http.Header, len(cfg.Headers)+1),
		// Through a tunnel (https) or SOCKS the upstream itself is spoken to.
		absolute: base.Scheme == "http" && cfg.Proxy != nil && (cfg.Proxy.Scheme == "http" || cfg.Proxy.Scheme == "https"),
	}
	if strings.Contains(o.prefix, "//") {
		return nil, fmt.Errorf("base_url %q: an empty path segment", cfg.BaseURL)
	}
	if err := o.show(base, cfg.HidePath); err != nil {
		return nil, fmt.Errorf("base_url %q: %w", cfg.BaseURL, err)
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.Headers)) { // of several mistakes always the same
		if err := o.addHeader(name, cfg.Headers[name]); err != nil {
			return nil, fmt.Errorf("headers: %w", err)
		}
	}
	return o, nil
}

func (o *origin) addHeader(name, value string) error {
	canonical := textproto.CanonicalMIMEHeaderKey(name)
	switch {
	case !httpguts.ValidHeaderFieldName(name):
		return fmt.Errorf("%q is not a header name", name)
	case !httpguts.ValidHeaderFieldValue(value):
		return fmt.Errorf("the value of %s has characters that a header cannot have, such as a line break", canonical)
	case canonical == "Host":
		if !httpguts.ValidHostHeader(value) {
			return fmt.Errorf("the value of Host is not a host")
		}
		o.host = value
		return nil
	case framing[canonical]:
		return fmt.Errorf("%s cannot be set: it belongs to the connection", canonical)
	}
	o.header.Set(canonical, value)
	return nil
}

// freeHeader returns the canonical name of a header that a tool may fill.
func (o *origin) freeHeader(name string) (string, error) {
	canonical := textproto.CanonicalMIMEHeaderKey(name)
	_, taken := o.header[canonical]
	switch {
	case !httpguts.ValidHeaderFieldName(name):
		return "", fmt.Errorf("%q is not a header name", name)
	case framing[canonical] || canonical == "Host":
		return "", fmt.Errorf("%s cannot be set by a tool: it belongs to the connection", canonical)
	case taken:
		return "", fmt.Errorf("%s cannot be set by a tool: the backend sets it", canonical)
	}
	return canonical, nil
}

// framing are the headers that say where a message begins and ends, where it
// goes, or what the sidecar itself sends.
var framing = map[string]bool{
	"Connection": true, "Content-Length": true, "Expect": true, "Keep-Alive": true,
	"Proxy-Authenticate": true, "Proxy-Authorization": true, "Proxy-Connection": true,
	"Te": true, "Trailer": true, "Transfer-Encoding": true, "Upgrade": true,
	"Accept-Encoding": true, "Content-Encoding": true,
	"Traceparent": true, "Tracestate": true, "Baggage": true,
}

// identity keeps net/http from looking into the empty body of a request to
// decide whether to announce one (see request.build).
var identity = []string{"identity"}

// show notes what spans say of the origin.
func (o *origin) show(base *url.URL, hidePath bool) (err error) {
	port := base.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[base.Scheme]
	}
	if o.port, err = strconv.Atoi(port); err != nil {
		return fmt.Errorf("the port: %w", err)
	}
	path := o.prefix
	if hidePath && path != "" {
		path = "/" + withheld
	}
	o.address, o.shown = base.Hostname(), base.Scheme+"://"+base.Host+path
	return nil
}

package cases

import (
	"cmp"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/sidecall/sidecall/internal/config"
)

// httpStandIn stands in for an http backend.
type httpStandIn struct {
	ledger *ledger
	pace   pace
	// ways are those to its tools, in the order of their names.
	ways []way
}

// way is what the requests of a tool look like.
type way struct {
	target

	method string
	path   *regexp.Regexp
}

// placeholders are the arguments in a path.
var placeholders = regexp.MustCompile(`\\\{[^}]*\\\}`)

// newHTTPStandIn stands in for the backend of a name.
func newHTTPStandIn(backend string, t targets, l *ledger, p pace) *httpStandIn {
	s := &httpStandIn{ledger: l, pace: p}
	prefix := ""
	if base, err := url.Parse(t.cfg.Backends[backend].HTTP.BaseURL.Reveal()); err == nil {
		prefix = strings.TrimSuffix(base.EscapedPath(), "/")
	}
	for _, name := range t.declared() {
		if one, ok := t.find(name); ok && one.backend == backend && one.http != nil {
			path, _, _ := strings.Cut(one.http.Path, "?")
			pattern := placeholders.ReplaceAllString(regexp.QuoteMeta(prefix+path), `[^/]*`)
			s.ways = append(s.ways, way{one, one.http.Method, regexp.MustCompile("^" + pattern + "$")})
		}
	}
	return s
}

// handler answers for the backend until stop.
func (s *httpStandIn) handler(stop <-chan struct{}) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x, whole := received(w, r, stop, s.pace)
		one, ok := s.tool(r)
		if !ok || !whole {
			x.write(http.StatusNotFound, "text/plain", []byte("no tool of the config has this request"))
			return
		}
		key := r.Header.Get(cmp.Or(one.http.IdempotencyHeader, keyHeader))
		f := s.ledger.request(one, one.sameness(key, r.Method+" "+r.URL.String()+" "+digest(x.body)))
		if !x.fail(one, f) {
			x.answer(*f.body)
		}
	})
}

// tool is the one that a request is of: of several that have such requests, the one
// whose call is under way.
func (s *httpStandIn) tool(r *http.Request) (target, bool) {
	fitting := slices.Collect(func(yield func(target) bool) {
		for _, w := range s.ways {
			if w.method == r.Method && w.path.MatchString(r.URL.EscapedPath()) && !yield(w.target) {
				return
			}
		}
	})
	if len(fitting) == 0 {
		return target{}, false
	}
	turn := s.ledger.underWay()
	if i := slices.IndexFunc(fitting, func(t target) bool { return t.name == turn }); i >= 0 {
		return fitting[i], true
	}
	return fitting[0], true
}

// redirectHTTP lets the config find the stand-in instead of its backend.
func redirectHTTP(b *config.HTTPBackend, to string) {
	path := ""
	if base, err := url.Parse(b.BaseURL.Reveal()); err == nil {
		path = base.EscapedPath()
	}
	b.BaseURL, b.AllowPrivate = config.NewText(to+path), true
	b.Proxy, b.TLS = config.Secret{}, nil
}

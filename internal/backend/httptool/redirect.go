package httptool

import (
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/sidecall/sidecall/internal/tool"
)

// maxHops is how many redirects one attempt follows.
const maxHops = 5

// follow returns the request to which a redirect leads, nil when it is not to
// be followed. Only what cannot do harm is: GET and HEAD without a body, of a
// read_only tool, to another path of the same origin. A redirect to elsewhere
// would take the backend's credentials along, and one of an effectful request
// would send it twice; those become failures that say where they point to.
func follow(resp *http.Response, req *request, effect tool.Effect, hop int) *request {
	switch resp.StatusCode {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
	default:
		return nil
	}
	method := req.prebuilt.Method
	harmless := effect == tool.ReadOnly && len(req.body) == 0 &&
		(method == http.MethodGet || method == http.MethodHead)
	if !harmless || hop >= maxHops {
		return nil
	}
	to := location(resp)
	if to == nil || !strings.EqualFold(to.Scheme, req.url.Scheme) || !strings.EqualFold(to.Host, req.url.Host) || to.User != nil {
		return nil
	}
	target := to.EscapedPath()
	if !strings.HasPrefix(target, "/") {
		target = "/" + target
	}
	if strings.HasPrefix(target, "//") {
		return nil // would be read as a host
	}
	if to.RawQuery != "" {
		target += "?" + to.RawQuery
	}
	next := *req
	next.url = req.origin.url(target)
	return &next
}

// location is the absolute URL that a redirect names; nil when it names none.
func location(resp *http.Response) *url.URL {
	text := resp.Header.Get("Location")
	if text == "" {
		return nil
	}
	// The path of our own URLs is in Opaque, where nothing resolves against it
	// (see origin.url).
	asked := resp.Request.URL
	whole := asked.Scheme + "://" + asked.Host + asked.Opaque
	if strings.HasPrefix(asked.Opaque, "//") {
		whole = asked.Scheme + ":" + asked.Opaque
	}
	from, err := url.Parse(whole)
	if err != nil {
		return nil
	}
	to, err := from.Parse(text)
	if err != nil {
		return nil
	}
	return to
}

// discardLimit is how much of a body nobody reads is read, so that its
// connection can be used again.
const discardLimit = 16 << 10

func discard(body io.ReadCloser) {
	_, _ = io.CopyN(io.Discard, body, discardLimit) // either way it is closed next
	_ = body.Close()                                // nothing of it is wanted
}

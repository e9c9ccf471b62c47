package config

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// format is a named rule of strings.
type format struct {
	expect  string
	pattern string                    // for the JSON Schema; also checked here
	re      *regexp.Regexp            // of pattern
	check   func(value string) string // what is wrong beyond the pattern; "" when nothing is
}

// refOr lets a pattern of the JSON Schema through to what holds references.
func refOr(pattern string) string { return `\$\{|` + pattern }

// maxSocketPath is the room of sun_path on Linux, less the final zero; other
// systems have a little less.
const maxSocketPath = 103

// MaxInstanceBytes bounds the name of an instance.
const MaxInstanceBytes = 200

// formats are the rules that format and keys tags name.
var formats = compile(map[string]*format{
	"name":         {expect: "1 to 64 letters, digits, _ or -", pattern: `^[a-zA-Z0-9_-]{1,64}$`},
	"prefix":       {expect: "at most 32 letters, digits, _ or -", pattern: `^[a-zA-Z0-9_-]{0,32}$`},
	"glob":         {expect: "a name in which * stands for anything and ? for one character", pattern: `^[^\s\[\]{}!\\]{1,128}$`},
	"env_name":     {expect: "the name of an environment variable: letters, digits and _, no digit first", pattern: `^[A-Za-z_][A-Za-z0-9_]*$`},
	"header":       {expect: "a header name such as X-Api-Key", pattern: "^[!#$%&'*+.^_`|~0-9A-Za-z-]+$"},
	"exit_code":    {expect: "an exit code from 1 to 255", pattern: `^([1-9][0-9]?|1[0-9][0-9]|2[0-4][0-9]|25[0-5])$`},
	"nonempty":     {expect: "a string that is not empty", pattern: `[^\x00]`},
	"instance":     {expect: "1 to 200 bytes without control characters", pattern: `^[^\x00-\x1f\x7f]{1,200}$`, check: checkInstance},
	"url_path":     {expect: "a path that starts with /", pattern: `^/[^#\s]*$`, check: checkURLPath},
	"listen":       {expect: "unix:///path or tcp://host:port", pattern: refOr(`^(unix:///|tcp://)`), check: checkListen},
	"admin":        {expect: "host:port or off", pattern: refOr(`^off$|:[0-9]+$`), check: checkAdmin},
	"host":         {expect: "a host name or an IP address, without port", pattern: `^([A-Za-z0-9_][A-Za-z0-9._-]*|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]+)$`},
	"operator":     {expect: "unix:///path or off", pattern: refOr(`^off$|^unix:///`), check: checkOperator},
	"run_as":       {expect: "user or user:group, by name or number", pattern: refOr(`^[^:\s]+(:[^:\s]+)?$`)},
	"addr":         {expect: "host:port", pattern: refOr(`:[0-9]+$`), check: checkAddr},
	"url":          {expect: "an http:// or https:// URL", pattern: refOr(`^https?://`), check: checkURL},
	"base_url":     {expect: "an http:// or https:// URL", pattern: refOr(`^https?://`), check: checkBaseURL},
	"proxy_url":    {expect: "an http://, https:// or socks5:// URL", pattern: refOr(`^(https?|socks5)://`), check: checkProxyURL},
	"env_value":    {expect: "a value without zero bytes", pattern: `^[^\x00]*$`},
	"header_value": {expect: "a header value without line breaks", pattern: `^[^\r\n\x00]*$`},
})

func compile(all map[string]*format) map[string]*format {
	for _, f := range all {
		f.re = regexp.MustCompile(f.pattern)
	}
	return all
}

func mustFormat(name string) *format {
	if name == "" {
		return nil
	}
	f, ok := formats[name]
	if !ok {
		panic(fmt.Sprintf("config: no format %q", name))
	}
	return f
}

// wrong says what is wrong with value, without repeating it: it may have come
// from a reference.
func (f *format) wrong(value string) string {
	if f.check != nil {
		if bad := f.check(value); bad != "" {
			return bad
		}
	}
	if !f.re.MatchString(value) {
		return "expected " + f.expect
	}
	return ""
}

func checkInstance(value string) string {
	if len(value) > MaxInstanceBytes {
		return fmt.Sprintf("the name is %d bytes long: expected at most %d", len(value), MaxInstanceBytes)
	}
	if strings.IndexFunc(value, unicode.IsControl) >= 0 {
		return "expected a name without control characters"
	}
	return ""
}

func checkURLPath(value string) string {
	if strings.Count(value, "{") != strings.Count(value, "}") {
		return "a { of the path is not closed by a }: expected /orders/{order_id}"
	}
	return ""
}

func checkListen(value string) string {
	if path, ok := strings.CutPrefix(value, "unix://"); ok {
		return checkSocket(path)
	}
	address, ok := strings.CutPrefix(value, "tcp://")
	if !ok {
		return "expected unix:///path or tcp://host:port"
	}
	return checkLoopback(address)
}

func checkSocket(path string) string {
	switch {
	case !filepath.IsAbs(path) || path == "/":
		return "a unix socket needs an absolute path: expected unix:///path"
	case len(path) > maxSocketPath:
		return fmt.Sprintf("the socket path is %d bytes long, and systems allow %d: choose a shorter one", len(path), maxSocketPath)
	}
	return ""
}

// checkOperator takes no port: nobody could say who connects to it.
func checkOperator(value string) string {
	if value == "off" {
		return ""
	}
	path, ok := strings.CutPrefix(value, "unix://")
	if !ok {
		return "expected unix:///path or off: only of a unix socket the system says who connects"
	}
	return checkSocket(path)
}

func checkAdmin(value string) string {
	if value == "off" {
		return ""
	}
	return checkLoopback(value)
}

// checkLoopback refuses what other machines could reach: without TLS, whoever
// reaches the port may call every tool.
func checkLoopback(address string) string {
	if bad := checkAddr(address); bad != "" {
		return bad
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return "expected host:port"
	}
	ip, err := netip.ParseAddr(host)
	if host == "localhost" || err == nil && ip.Unmap().IsLoopback() {
		return ""
	}
	return "this address can be reached from other machines, and there is no TLS here yet: expected 127.0.0.1, [::1], localhost or a unix socket"
}

func checkAddr(value string) string {
	_, port, err := net.SplitHostPort(value)
	if err != nil {
		return "expected host:port, an IPv6 host in brackets"
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || strconv.FormatUint(n, 10) != port {
		return "expected host:port with a port from 0 to 65535"
	}
	return ""
}

func checkBaseURL(value string) string {
	if bad := checkURL(value); bad != "" {
		return bad
	}
	if u, err := url.Parse(value); err != nil || u.RawQuery != "" || u.ForceQuery {
		return "a base URL has no query: expected http://host/path, and query parameters in the tool's http.query"
	}
	return ""
}

func checkURL(value string) string { return checkURLOf(value, "http", "https") }

func checkProxyURL(value string) string {
	u, err := url.Parse(value)
	if err == nil {
		u.User = nil // a proxy's user has no other place
		value = u.String()
	}
	return checkURLOf(value, "http", "https", "socks5")
}

// checkURLOf never shows the parser's error, which repeats the URL.
func checkURLOf(value string, schemes ...string) string {
	expected := "expected a URL such as " + schemes[0] + "://host:port/path"
	u, err := url.Parse(value)
	if err != nil || u.Opaque != "" {
		return expected
	}
	switch {
	case !slices.Contains(schemes, u.Scheme) || u.Hostname() == "":
		return expected
	case u.User != nil:
		return "a URL here has no user or password: put them into headers, as in Authorization: Basic ..."
	case u.Fragment != "":
		return "a URL here has no fragment (#...)"
	}
	if port := u.Port(); port != "" {
		return checkAddr(net.JoinHostPort(u.Hostname(), port))
	}
	return ""
}

package httptool_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"sync"
	"testing"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/backend/httptool"
	"github.com/sidecall/sidecall/internal/tool"
)

// forwardProxy carries requests on to where their first line says, and CONNECT
// to where that one says, and remembers those lines.
type forwardProxy struct {
	*httptest.Server
	t *testing.T

	mu sync.Mutex
	// asked are the first lines of the requests: method and target.
	asked []string
	// tunnels are those that are open; ended is told when one is not any more.
	tunnels int
	ended   *sync.Cond
}

func startProxy(t *testing.T) *forwardProxy {
	t.Helper()
	p := &forwardProxy{t: t}
	p.ended = sync.NewCond(&p.mu)
	p.Server = httptest.NewServer(p)
	t.Cleanup(func() {
		p.Close() // which does not wait for tunnels
		p.mu.Lock()
		defer p.mu.Unlock()
		for p.tunnels > 0 {
			p.ended.Wait()
		}
	})
	return p
}

func (p *forwardProxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.asked = append(p.asked, r.Method+" "+r.RequestURI)
	p.mu.Unlock()
	if r.Header.Get("Proxy-Authorization") != "Basic dXNlcjpwYXNz" {
		http.Error(w, "who are you?", http.StatusProxyAuthRequired)
		return
	}
	if r.Method == http.MethodConnect {
		p.tunnel(w, r.Host)
		return
	}
	if !r.URL.IsAbs() {
		http.Error(w, "this is a proxy", http.StatusBadRequest)
		return
	}
	r.RequestURI = ""
	r.Header.Del("Proxy-Authorization")
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		p.t.Error(err)
		return
	}
	defer resp.Body.Close()
	maps.Copy(w.Header(), resp.Header)
	w.WriteHeader(resp.StatusCode)
	_, _ = io.Copy(w, resp.Body)
}

// tunnel carries bytes until one side closes, which closes the other.
func (p *forwardProxy) tunnel(w http.ResponseWriter, address string) {
	p.mu.Lock()
	p.tunnels++
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.tunnels--
		p.ended.Broadcast()
	}()
	far, err := net.Dial("tcp", address)
	if err != nil {
		p.t.Error(err)
		return
	}
	near, early, err := http.NewResponseController(w).Hijack()
	if err != nil {
		p.t.Error(err)
		return
	}
	_, _ = io.WriteString(near, "HTTP/1.1 200 OK\r\n\r\n") // a client that left is found out next
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(near, far)
		_ = near.Close()
	})
	_, _ = io.Copy(far, early) // what the server has read ahead comes first
	_ = far.Close()
	back.Wait()
}

func (p *forwardProxy) config(t *testing.T, base string) httptool.Config {
	t.Helper()
	at, err := url.Parse(p.URL)
	if err != nil {
		t.Fatal(err)
	}
	at.User = url.UserPassword("user", "pass")
	return httptool.Config{BaseURL: base, AllowPrivate: true, Proxy: at}
}

// echoing answers with what arrived, and redirects once.
func echoing(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/api/moved":
		http.Redirect(w, r, "there%2Fit?x=1", http.StatusFound)
	default:
		var body bytes.Buffer
		_, _ = body.ReadFrom(r.Body)
		_, _ = io.WriteString(w, r.Method+" "+r.RequestURI+" "+r.Host+" "+body.String())
	}
}

// A proxy is told the whole URL of a plain request: the path alone says nothing
// of where it is to go.
func TestAProxyIsToldTheWholeURL(t *testing.T) {
	upstream := serve(t, echoing)
	host := upstream[len("http://"):]
	for name, c := range map[string]struct {
		call  call
		asked []string
		text  string
	}{
		"a read": {call{spec: httptool.Spec{Path: "/f/{id}?v=2"}, args: `{"id":"a/b c"}`},
			[]string{"GET " + upstream + "/api/f/a%2Fb%20c?v=2"}, "GET /api/f/a%2Fb%20c?v=2 " + host + " "},
		"an effect": {call{spec: httptool.Spec{Method: "POST", Path: "/o"}, args: `{"a":1}`},
			[]string{"POST " + upstream + "/api/o"}, "POST /api/o " + host + ` {"a":1}`},
		"a redirect": {call{spec: httptool.Spec{Path: "/moved"}, effect: tool.ReadOnly},
			[]string{"GET " + upstream + "/api/moved", "GET " + upstream + "/api/there%2Fit?x=1"}, "GET /api/there%2Fit?x=1 " + host + " "},
	} {
		t.Run(name, func(t *testing.T) {
			p := startProxy(t)
			reply, failure := c.call.on(t, open(t, p.config(t, upstream+"/api")))
			noFailure(t, failure)
			if string(reply.Text) != c.text || !slices.Equal(p.asked, c.asked) {
				t.Errorf("the proxy was asked %q, the upstream answers %q; want %q and %q", p.asked, reply.Text, c.asked, c.text)
			}
		})
	}
}

func TestAProxyTunnelsTLS(t *testing.T) {
	upstream := httptest.NewTLSServer(http.HandlerFunc(echoing))
	t.Cleanup(upstream.Close)
	host := upstream.Listener.Addr().String()
	roots := x509.NewCertPool()
	roots.AddCert(upstream.Certificate())
	p := startProxy(t)
	cfg := p.config(t, upstream.URL+"/api")
	cfg.TLS = &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
	reply, failure := call{spec: httptool.Spec{Path: "/moved"}, effect: tool.ReadOnly}.on(t, open(t, cfg))
	noFailure(t, failure)
	if want := "GET /api/there%2Fit?x=1 " + host + " "; string(reply.Text) != want {
		t.Errorf("the upstream answers %q, want %q", reply.Text, want)
	}
	if want := []string{"CONNECT " + host}; !slices.Equal(p.asked, want) {
		t.Errorf("the proxy was asked %q, want %q", p.asked, want)
	}
}

// What is refused directly is refused behind a proxy too, before the proxy is
// asked. The proxy itself is the operator's choice: it may be on this machine.
func TestAProxyDoesNotSwitchTheAddressGuardOff(t *testing.T) {
	for name, c := range map[string]struct {
		host         string
		allowPrivate bool
		refused      bool
	}{
		"metadata":                   {"169.254.169.254", true, true},
		"metadata, mapped":           {"[::ffff:169.254.169.254]", true, true},
		"metadata, with a dot":       {"169.254.169.254.", true, true},
		"metadata over IPv6":         {"[fd00:ec2::254]", true, true},
		"private":                    {"10.0.0.1", false, true},
		"loopback":                   {"127.0.0.1:1", false, true},
		"a name of loopback":         {"localhost:1", false, true},
		"a name that only it knows":  {"upstream.invalid", false, false},
		"a name that nobody knows":   {"upstream.invalid", true, false},
		"private, allowed":           {"10.0.0.1", true, false},
		"loopback, allowed":          {"localhost:1", true, false},
		"public":                     {"93.184.215.14", false, false},
		"link-local with a zone":     {"[fe80::1%25eth0]", true, true},
		"private by a translator":    {"[64:ff9b::a00:1]", false, true},
		"unspecified means loopback": {"0.0.0.0", true, true},
	} {
		t.Run(name, func(t *testing.T) {
			p := startProxy(t)
			cfg := p.config(t, "http://"+c.host)
			cfg.AllowPrivate = c.allowPrivate
			cfg.Proxy.User = nil // it then answers by itself, and asks nobody
			_, failure := call{spec: httptool.Spec{Path: "/x"}}.on(t, open(t, cfg))
			if c.refused {
				proves(t, failure, tool.CodeUnrecoverable, tool.NotExecuted)
				if failure.ErrorType != backend.ErrorTypeAddressRefused {
					t.Errorf("failure = %+v", failure)
				}
			}
			if asked := len(p.asked) > 0; asked == c.refused {
				t.Errorf("the proxy was asked: %v", p.asked)
			}
		})
	}
}

// A proxy may read 127.1 or full-width digits as an address; nobody here does.
func TestAnAddressInDisguiseIsNotGivenToAProxy(t *testing.T) {
	p := startProxy(t)
	for _, host := range []string{"127.1", "2852039166", "0xa9fea9fe", "0251.0376.0251.0376", "169.254.169.0xfe", "１２７.0.0.1", "127.1.", "a..b"} {
		if b, err := httptool.New(p.config(t, "http://"+host)); err == nil {
			_ = b.Close(t.Context())
			t.Errorf("%s is taken", host)
		}
	}
}

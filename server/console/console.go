// Package console is the web pages of those who look after a sidecar: did it run, what is of
// unknown outcome, what waits for a person, how the tools are.
//
// It is a client of OperatorService and nothing more: it runs as the person who has started it,
// with the rights that this person has at the operator's socket, and the sidecar itself serves
// no pages. Its pages work without scripts; with them they follow what changes.
package console

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	sidecallv1 "github.com/sidecall/sidecall/proto/sidecall/v1"
	"github.com/sidecall/sidecall/server"
)

//go:embed pages
var files embed.FS

// Options are what a console is made of.
type Options struct {
	Operator sidecallv1.OperatorServiceClient
	// By is what the person calls themselves, beside the user that the sidecar sees.
	By string
	// Address is the socket that the operator's service is asked at, to be shown.
	Address string
}

// Console serves the pages to whoever has its token.
type Console struct {
	options Options
	token   string
	place   string // where all pages are: what is served at another port of the host gets no cookie of them
	pages   map[string]*template.Template
	samples samples
	watch   watch
	// following has a place for each page that is told of what changes.
	following chan struct{}
}

// cookie holds the token. The __Host- prefix is for https alone, which this is not.
const cookie = "sidecall_console"

// New returns a console with a token that nobody can guess.
func New(options Options) (*Console, error) {
	c := &Console{options: options, token: rand.Text(), place: "/" + rand.Text() + "/", pages: map[string]*template.Template{}, following: make(chan struct{}, maxWatchers)}
	for _, name := range []string{"home", "found", "call", "conversation", "tools", "failed"} {
		page, err := template.New("layout.html").Funcs(functions).ParseFS(files, "pages/layout.html", "pages/"+name+".html", "pages/parts.html")
		if err != nil {
			return nil, fmt.Errorf("page %s: %w", name, err)
		}
		c.pages[name] = page
	}
	return c, nil
}

// Entry is the path that a browser has to ask for first.
func (c *Console) Entry() string { return c.place + "?token=" + c.token }

// policy lets a page load what comes from here, and nothing else; nobody may frame it.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self' data:; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// Handler serves the pages. Requests are answered that are for a loopback name, come with the
// token, and, where they change something, from a page of its own.
func (c *Console) Handler() (http.Handler, error) {
	static, err := fs.Sub(files, "pages")
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /style.css", http.FileServerFS(static))
	mux.Handle("GET /live.js", http.FileServerFS(static))
	mux.HandleFunc("GET /{$}", c.asking(c.home))
	mux.HandleFunc("GET /find", c.asking(c.find))
	mux.HandleFunc("GET /call", c.asking(c.call))
	mux.HandleFunc("GET /conversation", c.asking(c.conversation))
	mux.HandleFunc("GET /tools", c.asking(c.tools))
	mux.HandleFunc("GET /live", c.live)
	mux.HandleFunc("POST /resolve", c.asking(c.resolve))
	mux.HandleFunc("POST /verify", c.asking(c.verify))
	mux.HandleFunc("POST /decide", c.asking(c.decide))
	return server.OnlyHosts(headers(http.NewCrossOriginProtection().Handler(c.known(http.StripPrefix(strings.TrimSuffix(c.place, "/"), mux)))), ""), nil
}

func headers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, req)
	})
}

// known lets in who has the token: in the address once, and then in a cookie. A browser sends
// that to every port of the host, where others may serve something, but to no other path.
func (c *Console) known(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if given := req.URL.Query().Get("token"); req.Method == http.MethodGet && c.is(given) {
			http.SetCookie(w, &http.Cookie{Name: cookie, Value: c.token, Path: c.place, HttpOnly: true, SameSite: http.SameSiteStrictMode}) //nolint:gosec // it is served on loopback, where there is no https
			lead(w, c.place)
			return
		}
		if kept, err := req.Cookie(cookie); err != nil || !c.is(kept.Value) {
			http.Error(w, "open the address that sidecall console has printed, with its token", http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, req)
	})
}

// lead sends a browser to another page, by its way from this one.
func lead(w http.ResponseWriter, to string) {
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusSeeOther)
}

func (c *Console) is(token string) bool {
	return subtle.ConstantTimeCompare([]byte(token), []byte(c.token)) == 1
}

// askTimeout bounds what a page asks of the sidecar.
const askTimeout = 20 * time.Second

// answer is what a request is answered with: a page, or the way to another one.
type answer struct {
	page, title string
	body        any
	code        int // of the page; 0 for 200
	to          string
}

// asking answers requests with what the sidecar says, when it is asked about the tenant that they are
// about; or shows why it has not done what it was asked.
func (c *Console) asking(ask func(ctx context.Context, req *http.Request) (answer, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, req *http.Request) {
		ctx, cancel := context.WithTimeout(req.Context(), askTimeout)
		defer cancel()
		if tenant := req.FormValue("tenant"); tenant != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, "sidecall-tenant", tenant)
		}
		a, err := ask(ctx, req)
		switch {
		case err != nil:
			c.show(w, req, failed(err))
		case a.to != "":
			lead(w, a.to)
		default:
			c.show(w, req, a)
		}
	}
}

// page is what every page shows.
type page struct {
	Title, Address, By string
	// Query is what was searched for, Tenant whose calls.
	Query, Tenant string
	First         bool // it is the first page
	Body          any
}

// show writes a page, whole or not at all.
func (c *Console) show(w http.ResponseWriter, req *http.Request, a answer) {
	var b bytes.Buffer
	err := c.pages[a.page].Execute(&b, page{
		Title: a.title, Address: c.options.Address, By: c.options.By, Query: req.FormValue("q"), Tenant: req.FormValue("tenant"), First: a.page == "home", Body: a.body,
	})
	if err != nil {
		http.Error(w, "this page cannot be made: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(cmp.Or(a.code, http.StatusOK))
	_, _ = b.WriteTo(w) // who has left needs no page
}

// failed is why the sidecar has not done what it was asked.
func failed(err error) answer {
	said := status.Convert(err)
	a := answer{page: "failed", title: "That did not work", body: said.Message(), code: http.StatusBadGateway}
	switch said.Code() {
	case codes.InvalidArgument:
		a.code = http.StatusBadRequest
	case codes.NotFound:
		a.code = http.StatusNotFound
	case codes.FailedPrecondition, codes.Aborted:
		a.code = http.StatusConflict
	default:
	}
	return a
}

package httptool

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/backend/conn"
)

const (
	// lookupPatience bounds one look at the name of a destination.
	lookupPatience = 2 * time.Second
	// lookupPause is how long a name that nobody here knows is not asked for
	// again: where only the proxy resolves names, every look is in vain.
	lookupPause = 30 * time.Second
)

// destination is where a proxy is asked to go. The connection of this side leads
// to the proxy, so that the guard of the dialer sees the proxy's address alone:
// the destination is judged by its name instead, right before a connection to the
// proxy is made. An address is judged as it is. A name is judged by what it
// resolves to here; what it resolves to there only the proxy can judge, and a name
// that is not known here is left to it.
type destination struct {
	name         string     // empty for an address
	addr         netip.Addr // of an address
	allowPrivate bool

	mu      sync.Mutex
	unknown time.Time // until then the name is not looked up
}

// destinationOf is the destination behind a proxy; nil without one.
func destinationOf(cfg Config) (*destination, error) {
	if cfg.Proxy == nil {
		return nil, nil
	}
	base, err := url.Parse(cfg.BaseURL)
	if err != nil {
		return nil, err
	}
	return newDestination(base.Hostname(), cfg.AllowPrivate)
}

// newDestination takes the host of a base URL. What a proxy might read as an
// address, and is none here, is refused: 127.1, 0x7f.1, digits that are not ASCII.
func newDestination(host string, allowPrivate bool) (*destination, error) {
	host = strings.TrimSuffix(host, ".")
	if addr, err := netip.ParseAddr(host); err == nil {
		return &destination{addr: addr, allowPrivate: allowPrivate}, nil
	}
	labels := strings.Split(host, ".")
	for _, label := range labels {
		if label == "" || strings.ContainsFunc(label, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '%' || r == ':' }) {
			return nil, fmt.Errorf("host %q: want an ASCII name (xn--…) or a whole address, which a proxy cannot read in two ways", host)
		}
	}
	// As browsers tell numbers from names (WHATWG URL, "ends in a number"). No
	// top-level domain begins with a digit.
	if last := labels[len(labels)-1]; '0' <= last[0] && last[0] <= '9' {
		return nil, fmt.Errorf("host %q: want a name or a whole address, which a proxy cannot read in two ways", host)
	}
	return &destination{name: host, allowPrivate: allowPrivate}, nil
}

// guard is dial, to the proxy, with a look at the destination before it.
func (d *destination) guard(dial conn.Dial) conn.Dial {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if err := d.check(ctx); err != nil {
			return nil, &net.OpError{Op: "dial", Net: network, Err: err}
		}
		return dial(ctx, network, address)
	}
}

// check returns a *backend.AddressError when the destination may not be called:
// of several addresses all have to be allowed, since the proxy chooses.
func (d *destination) check(ctx context.Context) error {
	if d.name == "" {
		return backend.CheckAddress(d.addr, d.allowPrivate)
	}
	for _, addr := range d.addresses(ctx) {
		if err := backend.CheckAddress(addr, d.allowPrivate); err != nil {
			return err
		}
	}
	return nil
}

// addresses is what the name resolves to here; none when nobody here knows it.
func (d *destination) addresses(ctx context.Context) []netip.Addr {
	d.mu.Lock()
	paused := time.Now().Before(d.unknown)
	d.mu.Unlock()
	if paused {
		return nil
	}
	looking, cancel := context.WithTimeout(ctx, lookupPatience)
	defer cancel()
	found, err := net.DefaultResolver.LookupNetIP(looking, "ip", d.name)
	if err != nil && ctx.Err() == nil {
		d.mu.Lock()
		d.unknown = time.Now().Add(lookupPause)
		d.mu.Unlock()
	}
	return found
}

package backend

import (
	"fmt"
	"net/netip"
	"syscall"
)

// AddressError is a connection that was refused because of where it leads.
type AddressError struct {
	Address netip.Addr
	// Private: the address could be allowed by the operator. Otherwise it is
	// always refused.
	Private bool
}

func (e *AddressError) Error() string {
	if e.Private {
		return fmt.Sprintf("address %s is private or loopback: set allow_private if this backend may call it", e.Address)
	}
	return fmt.Sprintf("address %s is link-local, metadata or not a host: it is never called", e.Address)
}

// GuardAddresses returns a net.Dialer.Control that refuses addresses a backend
// has no business to call: always link-local, multicast and the metadata
// services of the clouds, and unless allowPrivate also loopback and private
// networks. It sees the address that is about to be connected to, so what DNS
// answers, or answers the second time, makes no difference.
func GuardAddresses(allowPrivate bool) func(network, address string, conn syscall.RawConn) error {
	return func(_, address string, _ syscall.RawConn) error {
		target, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("address %q cannot be checked: %w", address, err)
		}
		return CheckAddress(target.Addr(), allowPrivate)
	}
}

// CheckAddress returns an *AddressError when addr may not be called. An IPv6
// address that a translator or tunnel would take to an IPv4 address is judged
// by both.
func CheckAddress(addr netip.Addr, allowPrivate bool) error {
	addr = addr.WithZone("").Unmap()
	worst := judge(addr)
	for _, inner := range embedded(addr) {
		worst = max(worst, judge(inner))
	}
	switch {
	case worst == forbidden:
		return &AddressError{Address: addr}
	case worst == private && !allowPrivate:
		return &AddressError{Address: addr, Private: true}
	default:
		return nil
	}
}

// standing is how far an address may be called; the higher the less.
type standing uint8

const (
	public standing = iota
	private
	forbidden
)

// always are never a tool's upstream. Link-local and multicast are told by
// netip itself.
var always = prefixes(
	"169.254.0.0/16",         // link-local, with the metadata address of most clouds
	"100.100.100.200/32",     // Alibaba Cloud metadata
	"168.63.129.16/32",       // Azure platform address
	"192.0.0.192/32",         // Oracle Cloud metadata, classic
	"fd00:ec2::/32",          // AWS over IPv6: metadata (::254), credentials of EKS pods (::23)
	"fd20:ce::254/128",       // Google Cloud metadata over IPv6
	"fd00:c1::a9fe:a9fe/128", // Oracle Cloud metadata over IPv6
	"fd00:42::42/128",        // Scaleway metadata over IPv6
	"255.255.255.255/32",     // broadcast
	"0.0.0.0/32", "::/128",   // unspecified: Linux takes it for loopback
)

// own are networks of the operator's own, or of nobody: RFC 1918, RFC 4193,
// RFC 6598, and the special-purpose registries of RFC 6890.
var own = prefixes(
	"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "172.16.0.0/12",
	"192.0.0.0/24", "192.0.2.0/24", "192.168.0.0/16", "198.18.0.0/15",
	"198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4",
	"::1/128", "64:ff9b:1::/48", "100::/64", "2001:db8::/32", "3fff::/20",
	"fc00::/7", "fec0::/10",
)

func prefixes(texts ...string) []netip.Prefix {
	parsed := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		parsed[i] = netip.MustParsePrefix(text)
	}
	return parsed
}

func judge(addr netip.Addr) standing {
	switch {
	case addr.IsLinkLocalUnicast(), addr.IsMulticast(), contains(always, addr):
		return forbidden
	case contains(own, addr):
		return private
	default:
		return public
	}
}

func contains(list []netip.Prefix, addr netip.Addr) bool {
	for _, p := range list {
		if p.Contains(addr) {
			return true
		}
	}
	return false
}

// tunnels are the IPv6 forms that carry an IPv4 address, with the byte at
// which it starts.
var tunnels = []struct {
	prefix netip.Prefix
	at     int
	// flip: the address is stored inverted.
	flip bool
}{
	{netip.MustParsePrefix("64:ff9b::/96"), 12, false},    // NAT64, RFC 6052
	{netip.MustParsePrefix("2002::/16"), 2, false},        // 6to4, RFC 3056
	{netip.MustParsePrefix("2001::/32"), 12, true},        // Teredo, RFC 4380
	{netip.MustParsePrefix("::ffff:0:0:0/96"), 12, false}, // SIIT, RFC 7915
	{netip.MustParsePrefix("::/96"), 12, false},           // IPv4-compatible, RFC 4291
}

// localNAT64 is RFC 8215's, of which networks take a part of whatever length.
var localNAT64 = netip.MustParsePrefix("64:ff9b:1::/48")

// embedded are the IPv4 addresses that addr may stand for.
func embedded(addr netip.Addr) []netip.Addr {
	if !addr.Is6() {
		return nil
	}
	bytes := addr.As16()
	if localNAT64.Contains(addr) {
		// Behind 96 bits, or behind 64 around byte 8 (RFC 6052, section 2.2); what
		// stands behind fewer ends in zeros, which is no address either.
		inner := []netip.Addr{innerAddress(bytes, 12, false)}
		if bytes[13]|bytes[14]|bytes[15] == 0 {
			inner = append(inner, innerAddress(bytes, 9, false))
		}
		return inner
	}
	for _, t := range tunnels {
		if t.prefix.Contains(addr) {
			return []netip.Addr{innerAddress(bytes, t.at, t.flip)}
		}
	}
	// ISATAP (RFC 5214) hides it behind any prefix, with 5efe before it.
	if bytes[8]&^0x02 == 0 && bytes[9] == 0 && bytes[10] == 0x5e && bytes[11] == 0xfe {
		return []netip.Addr{innerAddress(bytes, 12, false)}
	}
	return nil
}

func innerAddress(bytes [16]byte, at int, flip bool) netip.Addr {
	inner := [4]byte(bytes[at : at+4])
	if flip {
		for i := range inner {
			inner[i] = ^inner[i]
		}
	}
	return netip.AddrFrom4(inner)
}

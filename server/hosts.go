package server

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// OnlyHosts serves requests for a loopback name or address, or for one of hosts,
// each with or without a port, which a setting of the config names (empty for none); others are
// answered with 421 (RFC 9110, section 15.5.20). A page in a browser can have its own name resolve
// to loopback and so ask whoever listens here (DNS rebinding), but not change the Host that it
// sends.
func OnlyHosts(next http.Handler, setting string, hosts ...string) http.Handler {
	known := make(map[string]bool, len(hosts))
	for _, host := range hosts {
		if _, err := netip.ParseAddr(host); err == nil {
			host = net.JoinHostPort(host, "0") // an IPv6 address without brackets
		}
		known[hostOf(host)] = true
	}
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		host := hostOf(req.Host)
		if host == "" || !known[host] && !isLoopback(host) {
			// Without the name: it is the asker's own word.
			why := "this host is not served here: ask for localhost"
			if setting != "" {
				why += ", or add the name to " + setting
			}
			http.Error(w, why, http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, req)
	})
}

// hostOf is a host without port, brackets and the dot of the root, in lower case;
// empty when that is no host.
func hostOf(authority string) string {
	host, _, err := net.SplitHostPort(authority)
	if err != nil {
		host = authority
		if inner, ok := strings.CutPrefix(host, "["); ok {
			if host, ok = strings.CutSuffix(inner, "]"); !ok {
				return ""
			}
		} else if strings.Contains(host, ":") {
			return ""
		}
	}
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.Unmap().IsLoopback()
}

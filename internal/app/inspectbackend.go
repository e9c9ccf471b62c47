package app

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sidecall/sidecall/internal/backend"
	"github.com/sidecall/sidecall/internal/backend/process"
	"github.com/sidecall/sidecall/internal/config"
)

// inspectBackend looks at what a backend needs of this machine and of the net,
// and at what the file gives away.
func inspectBackend(name string, cfg *config.Config, found *problems) {
	b := cfg.Backends[name]
	at := func(keys ...string) []string { return append([]string{"backends", name}, keys...) }
	switch {
	case !b.HasOneKind(): // the file itself is wrong
	case b.HTTP != nil:
		inspectURL(b.HTTP.BaseURL, b.HTTP.AllowPrivate, found, at("http", "base_url"))
		inspectSecrets(b.HTTP.Headers, found, at("http", "headers"))
		if strings.Contains(b.HTTP.Proxy.Reveal(), "@") && !isReference(b.HTTP.Proxy) {
			found.add(config.RuleLiteralSecret, literalSecret, at("http", "proxy")...)
		}
		if b.HTTP.TLS != nil && b.HTTP.TLS.InsecureSkipVerify {
			found.add(config.RuleTLSUnverified, unverified, at("http", "tls", "insecure_skip_verify")...)
		}
	case b.MCP != nil:
		inspectMCP(b, cfg, found, at)
	case b.Worker != nil:
		inspectWorker(b, cfg, found, at)
	case b.Exec != nil:
		inspectDirectory(b.Exec.Dir, found, at("exec", "dir"))
		inspectSecrets(b.Exec.Env.Set, found, at("exec", "env"))
		for _, tool := range slices.Sorted(maps.Keys(cfg.Tools)) {
			if t := cfg.Tools[tool]; t.Backend == name && t.Exec != nil {
				inspectProgram(t.Exec.Argv, cmp.Or(b.Exec.Dir.Reveal(), cfg.Dir), b.Exec.Env, found, []string{"tools", tool, "exec", "argv"})
			}
		}
	}
}

func inspectMCP(b config.Backend, cfg *config.Config, found *problems, at func(...string) []string) {
	m := b.MCP
	if len(m.Command) > 0 {
		inspectDirectory(m.Dir, found, at("mcp", "dir"))
		inspectProgram(m.Command, cmp.Or(m.Dir.Reveal(), cfg.Dir), m.Env, found, at("mcp", "command"))
	} else {
		inspectURL(m.URL, m.AllowPrivate, found, at("mcp", "url"))
	}
	inspectSecrets(m.Env.Set, found, at("mcp", "env"))
	inspectSecrets(m.Headers, found, at("mcp", "headers"))
	if _, rest := b.Effects["*"]; !rest && !m.TrustAnnotations && b.Effects == nil {
		found.add(config.RuleEffectUnsaid, "nothing is said of the effects of its tools, so they count as non_idempotent and are not repeated when they fail; "+
			"write effects, or trust_annotations: true", at()...)
	}
}

func inspectWorker(b config.Backend, cfg *config.Config, found *problems, at func(...string) []string) {
	if !b.Worker.TrustEffects && b.Effects == nil {
		found.add(config.RuleEffectUnsaid, "nothing is said of the effects of its tools, and the word of its workers does not count, so they count as non_idempotent; "+
			"write effects, or trust_effects: true", at()...)
	}
	for _, l := range cfg.Listen {
		if strings.HasPrefix(l.Reveal(), "tcp://") {
			found.add(config.RuleWorkerAddress, fmt.Sprintf("every user of this machine may register tools at %s, and be sent the calls of those that others have registered: listen on a socket alone (unix:///path)",
				l.Address), at("worker")...)
			return
		}
	}
}

// inspectStore looks at the store as inspectBackend does at a backend.
func inspectStore(cfg *config.Config, found *problems) {
	if embedded := cfg.Store.Embedded; embedded != nil {
		if dir := filepath.Dir(embedded.Path.Reveal()); !isDirectory(dir) {
			found.add(config.RuleDirectory, fmt.Sprintf("there is no directory for %s on this machine", quotedPath(embedded.Path)), "store", "embedded", "path")
		}
	}
	r := cfg.Store.Redis
	if r == nil {
		return
	}
	for key, secret := range map[string]config.Secret{"password": r.Password, "sentinel_password": r.SentinelPassword} {
		if secret.Reveal() != "" && !isReference(secret) {
			found.add(config.RuleLiteralSecret, literalSecret, "store", "redis", key)
		}
	}
	if i := slices.IndexFunc(r.Addrs, isRemote); i >= 0 && !r.TLS.On() && (r.Password.Reveal() != "" || r.SentinelPassword.Reveal() != "") {
		found.add(config.RuleCleartext, "the password, and the records of calls, go to another machine as they are: write tls, or use a Redis on this one", "store", "redis", "addrs", fmt.Sprint(i))
	}
	if r.TLS.On() && r.TLS.InsecureSkipVerify {
		found.add(config.RuleTLSUnverified, unverified, "store", "redis", "tls", "insecure_skip_verify")
	}
}

// isRemote reports a host:port that is not evidently on this machine.
func isRemote(address config.Text) bool {
	host, _, err := net.SplitHostPort(address.Reveal())
	addr, ok := literalAddress(host)
	return err == nil && !(ok && addr.IsLoopback())
}

// literalAddress is the address that a host is without asking anybody.
func literalAddress(host string) (netip.Addr, bool) {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return netip.IPv6Loopback(), true
	}
	addr, err := netip.ParseAddr(host)
	return addr.Unmap(), err == nil
}

// inspectSockets looks for the directories of the sockets, which nobody makes.
func inspectSockets(cfg *config.Config, found *problems) {
	look := func(address config.Text, at ...string) {
		if path, ok := strings.CutPrefix(address.Reveal(), "unix://"); ok && !isDirectory(filepath.Dir(path)) {
			found.add(config.RuleDirectory, fmt.Sprintf("there is no directory for %s on this machine", quoted(address)), at...)
		}
	}
	for i, l := range cfg.Listen {
		look(l.Address, "listen", fmt.Sprint(i))
	}
	look(cfg.Operator, "operator")
}

const (
	unverified    = "whoever answers is believed to be the other side, and is sent its secrets: name its authority in ca instead"
	literalSecret = "a secret is written in the file: write ${env:NAME} or ${file:/path} instead"
)

// inspectURL looks for a literal address that no request may go to. A name is
// judged when it has been resolved.
func inspectURL(text config.Text, allowPrivate bool, found *problems, at []string) {
	u, err := url.Parse(text.Reveal())
	if err != nil {
		return
	}
	if u.User != nil && !strings.Contains(text.String(), "${") {
		found.add(config.RuleLiteralSecret, literalSecret, at...)
	}
	for name := range u.Query() {
		if config.SecretName.MatchString(name) && !strings.Contains(text.String(), "${") {
			found.add(config.RuleLiteralSecret, literalSecret, at...)
		}
	}
	addr, ok := literalAddress(u.Hostname())
	switch {
	case !ok || backend.CheckAddress(addr, allowPrivate) == nil:
	case backend.CheckAddress(addr, true) == nil:
		found.add(config.RulePrivateAddress, "this address is private: every call is refused without allow_private: true", at...)
	default:
		found.add(config.RulePrivateAddress, "this address is never called, whatever is allowed: every call is refused", at...)
	}
}

// isReference reports whether a value comes from the environment or a file.
func isReference(s config.Secret) bool {
	text, err := s.MarshalText()
	return err == nil && strings.HasPrefix(string(text), "${")
}

func inspectSecrets(values map[string]config.Secret, found *problems, at []string) {
	for name, value := range values {
		if config.SecretName.MatchString(name) && value.Reveal() != "" && !isReference(value) {
			found.add(config.RuleLiteralSecret, literalSecret, append(slices.Clone(at), name)...)
		}
	}
}

func inspectDirectory(dir config.Path, found *problems, at []string) {
	if path := dir.Reveal(); path != "" && !isDirectory(path) {
		found.add(config.RuleDirectory, fmt.Sprintf("there is no directory %s on this machine", quotedPath(dir)), at...)
	}
}

// quotedPath is a path as it is written, and where that is.
func quotedPath(path config.Path) string {
	if written := path.String(); !filepath.IsAbs(written) && len(path.References()) == 0 {
		return fmt.Sprintf("%s (%s)", quoted(path.Text), path.Reveal())
	}
	return quoted(path.Text)
}

func isDirectory(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// inspectProgram looks for a program as a call would. In a directory that is not
// there it would find none, which is told already.
func inspectProgram(argv []config.Text, dir string, env config.Env, found *problems, at []string) {
	if len(argv) == 0 || !isDirectory(dir) {
		return
	}
	spec := process.Spec{Argv: config.RevealList(argv), Dir: dir, Env: env.List(os.LookupEnv)}
	var why string
	switch err := findProgram(spec); {
	case err == nil || spec.Validate() != nil:
		return
	case errors.Is(err, fs.ErrPermission):
		why = "may not be run on this machine"
	case strings.ContainsRune(spec.Argv[0], filepath.Separator):
		why = "is not there on this machine"
		if !filepath.IsAbs(spec.Argv[0]) {
			why += fmt.Sprintf(" (seen from %s)", dir)
		}
	default:
		why = "is not in the PATH that it gets on this machine"
	}
	found.add(config.RuleExecutable, fmt.Sprintf("the program %s %s: every call fails", quoted(argv[0]), why), append(slices.Clone(at), "0")...)
}

// findProgram looks for the file that a call would run.
func findProgram(spec process.Spec) error {
	path, err := spec.Program()
	if err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err == nil && (info.IsDir() || info.Mode()&0o111 == 0) {
		return fs.ErrPermission
	}
	return err
}

// quoted is a path as the file has it: what a reference in it leads to may be
// secret.
func quoted(path config.Text) string { return fmt.Sprintf("%.200q", path.String()) }

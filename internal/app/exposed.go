package app

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/sidecall/sidecall/internal/backend/process"
	"github.com/sidecall/sidecall/internal/config"
)

// exposed names the files of a config that other users of this machine may read or
// write: who writes the config, the store or a command decides what runs here, and
// who reads a secret has it. Nothing is refused for it: an operator may know why.
// What does not exist yet is judged by its directory, and made with mode 0600.
func exposed(cfg *config.Config) []config.Problem {
	e := &exposure{config: cfg, told: make(map[string]bool)}
	e.file(cfg.File, holdsSecrets(cfg), config.Problem{File: cfg.File})
	for _, ref := range cfg.FileReferences() {
		e.file(ref.Path, true, config.Problem{File: cfg.File, Line: ref.Line, Column: ref.Column})
	}
	e.stores()
	for i, address := range config.RevealList(cfg.Listen) {
		if path, ok := strings.CutPrefix(address, "unix://"); ok {
			e.socket(path, "listen", fmt.Sprint(i))
		}
	}
	if path, ok := strings.CutPrefix(cfg.Operator.Reveal(), "unix://"); ok {
		e.socket(path, "operator")
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.Backends)) {
		e.backend(name, cfg.Backends[name])
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.Tools)) {
		t := cfg.Tools[name]
		if on := cfg.Backends[t.Backend].Exec; t.Exec != nil && on != nil {
			e.command(config.RevealList(t.Exec.Argv), on.Dir, on.Env, "tools", name, "exec", "argv")
		}
	}
	return e.found
}

// holdsSecrets reports whether a secret stands in the config itself.
func holdsSecrets(cfg *config.Config) bool {
	values := []map[string]config.Secret{{"secret": cfg.Notify.Secret}}
	if r := cfg.Store.Redis; r != nil {
		values = append(values, map[string]config.Secret{"password": r.Password, "sentinel_password": r.SentinelPassword})
	}
	for _, b := range cfg.Backends {
		if !b.HasOneKind() {
			continue // the file itself is wrong
		}
		values = append(values, kinds[b.Kind()].entrusted(b).values...)
	}
	for _, group := range values {
		for name, value := range group {
			if value.Reveal() != "" && config.SecretName.MatchString(name) && len(value.References()) == 0 {
				return true
			}
		}
	}
	return false
}

// exposure collects what is found.
type exposure struct {
	config *config.Config
	found  []config.Problem
	told   map[string]bool
}

// stores looks at what holds the records of calls, and at certificates.
func (e *exposure) stores() {
	if s := e.config.Store.Embedded; s != nil {
		e.file(s.Path.Reveal(), true, e.config.Where("store", "embedded", "path"))
	}
	if e.config.Journal.On(e.config.Store.Kind()) {
		e.file(e.config.JournalPath(), true, e.config.Where("journal", "path"))
	}
	e.file(e.config.PinsFile(), false, e.config.Where("pins", "path")) // who writes there accepts what tools say
	e.file(e.config.ObservedFile(), true, e.config.Where("observe", "file"))
	if r := e.config.Store.Redis; r != nil && r.TLS != nil {
		e.certificates(r.TLS.TLS, "store", "redis", "tls")
	}
}

func (e *exposure) certificates(t config.TLS, path ...string) {
	e.file(t.CA.Reveal(), false, e.config.Where(append(path, "ca")...))
	e.file(t.Cert.Reveal(), false, e.config.Where(append(path, "cert")...))
	e.file(t.Key.Reveal(), true, e.config.Where(append(path, "key")...))
}

func (e *exposure) backend(name string, b config.Backend) {
	switch {
	case b.HTTP != nil && b.HTTP.TLS != nil:
		e.certificates(*b.HTTP.TLS, "backends", name, "http", "tls")
	case b.MCP != nil && b.MCP.Command != nil:
		e.command(config.RevealList(b.MCP.Command), b.MCP.Dir, b.MCP.Env, "backends", name, "mcp", "command")
	}
}

// command looks at the program that a command runs, where it is there.
func (e *exposure) command(argv []string, dir config.Path, env config.Env, path ...string) {
	if len(argv) == 0 {
		return
	}
	program, err := process.Spec{Argv: argv, Dir: cmp.Or(dir.Reveal(), e.config.Dir), Env: env.List(os.LookupEnv)}.Program()
	if err == nil {
		e.file(program, false, e.config.Where(path...))
	}
}

// file warns when others may write a file, or put another in its place; and, when
// it is secret, when they may read it.
func (e *exposure) file(path string, secret bool, at config.Problem) {
	if path == "" {
		return
	}
	link := path
	path, info, err := resolved(path)
	if err != nil {
		return // whoever opens it says why
	}
	e.place(link, 0, at) // a link can be replaced where it stands
	if info != nil && writableByOthers(info) {
		e.tell(at, fmt.Sprintf("others may write %s (mode %04o): chmod go-w, and let it belong to this user or to root", path, info.Mode().Perm()))
	}
	if info != nil && secret && info.Mode().Perm()&0o004 != 0 {
		e.tell(at, fmt.Sprintf("others may read %s (mode %04o): chmod o-r", path, info.Mode().Perm()))
	}
	e.place(path, 0, at)
}

// socket warns when others may put a socket of their own in the place of this one,
// as anybody may in /tmp while it is not there.
func (e *exposure) socket(path string, at ...string) {
	e.place(path, fs.ModeSticky, e.config.Where(at...))
}

// place warns of a directory above path in which others may replace what leads to
// it. In one that has all of the mode bits of even they may: the sticky bit keeps
// them from replacing what is there, not from making what is not.
func (e *exposure) place(path string, even fs.FileMode, at config.Problem) {
	path, err := filepath.Abs(path)
	if err != nil {
		return
	}
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err == nil && info.Mode().Perm()&0o002 != 0 && info.Mode()&fs.ModeSticky&^even == 0 {
			e.tell(at, fmt.Sprintf("others may replace %s: they may write to the directory %s (mode %04o)", path, dir, info.Mode().Perm()))
			return
		}
		if dir == filepath.Dir(dir) {
			return
		}
		even = 0 // what is above is there already
	}
}

// tell warns once of each thing: many tools may run one program.
func (e *exposure) tell(at config.Problem, message string) {
	if !e.told[message] {
		e.told[message] = true
		at.Message, at.Rule = e.config.MaskAt(at.Path, message), config.RuleExposed
		e.found = append(e.found, at)
	}
}

// resolved follows links, and returns what is there: nil when nothing is.
func resolved(path string) (string, fs.FileInfo, error) {
	leads, err := filepath.EvalSymlinks(path)
	if errors.Is(err, fs.ErrNotExist) {
		return path, nil, nil
	}
	if err != nil {
		return "", nil, err
	}
	info, err := os.Stat(leads)
	return leads, info, err
}

// writableByOthers reports whether somebody else than root and the user of this
// process may write to a file. A group that has the number of its user is that
// user's own.
func writableByOthers(info fs.FileInfo) bool {
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return false
	}
	mode := info.Mode().Perm()
	foreign := owner.Uid != 0 && int(owner.Uid) != os.Geteuid()
	return mode&0o002 != 0 || mode&0o020 != 0 && owner.Gid != owner.Uid || mode&0o200 != 0 && foreign
}

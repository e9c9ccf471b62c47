package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v4"

	"github.com/sidecall/sidecall/internal/app"
	"github.com/sidecall/sidecall/internal/config"
)

const (
	// mostTimeouts is how many timeouts a call may take whose server reports progress, or that
	// is retried; longestCall bounds that.
	mostTimeouts = 6
	longestCall  = 12 * time.Hour
)

// wrapStore is the file of the store of wrappers, in the directory of their state.
const wrapStore = "wrap.db"

// runners are programs that run another one, which their arguments name.
var runners = []string{"npx", "bunx", "pnpm", "yarn", "node", "bun", "deno", "uvx", "uv", "pipx", "python", "python3", "docker", "podman", "sh", "bash", "env"}

var (
	// runnersWord are arguments of a runner that name no program.
	runnersWord = []string{"run", "exec", "dlx", "x", "tool"}
	notOfAName  = regexp.MustCompile(`[^a-zA-Z0-9_-]+`)
)

// nameOf is what the server is called.
func (f *wrapFlags) nameOf(command []string) string {
	if f.name != "" {
		return f.name
	}
	if f.url != "" {
		return f.nameOfHost()
	}
	name := filepath.Base(command[0])
	if slices.Contains(runners, name) {
		for _, arg := range command[1:] {
			if !strings.HasPrefix(arg, "-") && !slices.Contains(runnersWord, arg) {
				name = arg
				break
			}
		}
	}
	name, _, _ = strings.Cut(filepath.Base(name), "@") // a version
	return strings.Trim(notOfAName.ReplaceAllString(name, "-"), "-")
}

// nameOfHost is what a server behind a URL is called.
func (f *wrapFlags) nameOfHost() string {
	u, err := url.Parse(f.url)
	if err != nil || u.Hostname() == "" { // it is a reference
		return "server"
	}
	return strings.Trim(notOfAName.ReplaceAllString(u.Hostname(), "-"), "-")
}

// tenant is whose the records of a server are. Two that are called by other commands are two, and so
// are two URLs, or two accounts at one, as far as they are written otherwise.
func (f *wrapFlags) tenant(command []string) string {
	if f.name != "" {
		return "wrap " + f.name
	}
	if f.url != "" {
		command = []string{f.url}
		for _, header := range f.headers {
			name, value, _ := strings.Cut(header, ":")
			command = append(command, name, strings.Join(reference.FindAllString(value, -1), " ")) // nothing of a secret
		}
	}
	sum := sha256.Sum256([]byte(strings.Join(command, "\x00")))
	return "wrap " + f.nameOf(command) + " " + hex.EncodeToString(sum[:8])
}

// stateFile is the file of the store, in a directory that is this user's alone.
func (f *wrapFlags) stateFile() (string, error) {
	dir := f.state
	if dir == "" {
		home := os.Getenv("XDG_STATE_HOME")
		if !filepath.IsAbs(home) { // as its specification wants it
			user, err := os.UserHomeDir()
			if err != nil {
				return "", fmt.Errorf("there is no place for what is recorded: %w: name one with --state", err)
			}
			home = filepath.Join(user, ".local", "state")
		}
		dir = filepath.Join(home, "sidecall")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	switch info, err := os.Stat(dir); {
	case err != nil:
		return "", err
	case info.Mode().Perm()&0o077 != 0:
		return "", fmt.Errorf("others may use the directory of what is recorded: chmod 700 %s, or name another one with --state", dir)
	}
	return filepath.Join(dir, wrapStore), nil
}

// config is that of the sidecar inside of a wrapper.
func (f *wrapFlags) config(state string) (*config.Config, error) {
	if f.timeout <= 0 || f.timeout > longestCall {
		return nil, fmt.Errorf("--timeout %s: want more than 0s, and at most %s", f.timeout, longestCall)
	}
	effects, tools, err := f.readEffects()
	if err != nil {
		return nil, err
	}
	server, err := f.server()
	if err != nil {
		return nil, err
	}
	text, err := yaml.Marshal(map[string]any{
		"identity": map[string]any{"require": []string{}}, "keep_arguments": "none",
		"store": map[string]any{"embedded": map[string]any{"path": state}},
		"defaults": map[string]any{
			"attempt_timeout": f.timeout.String(), "deadline": min(mostTimeouts*f.timeout, longestCall).String(), "max_output_chars": f.maxOutput,
			"recovery": map[string]any{"context": "off"},
		},
		"default_profile": "wrap", "profiles": map[string]any{"wrap": map[string]any{"loop_guard": map[string]any{"off": !f.guard}}},
		"backends": map[string]any{app.WrappedBackend: map[string]any{
			"mcp": server, "trust": "trusted",
			"effects": effects, "tools": tools,
		}},
	})
	if err != nil {
		return nil, err
	}
	cfg, err := config.Parse("sidecall wrap", text, config.System())
	if err != nil && f.effects != "" && f.url == "" {
		return nil, fmt.Errorf("--effects %s: %w", f.effects, err)
	}
	return cfg, err
}

// server is the backend that the server is.
func (f *wrapFlags) server() (map[string]any, error) {
	self, err := os.Executable() // the command counts for nothing: the backend is brought
	if err != nil || f.url == "" {
		return map[string]any{"command": []string{self}, "trust_annotations": f.trust}, err
	}
	headers := map[string]string{}
	for _, header := range f.headers {
		name, value, ok := strings.Cut(header, ":")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if _, twice := headers[name]; !ok || name == "" || twice {
			return nil, errors.New("--header: want 'NAME: VALUE', each name once")
		}
		headers[name] = value
	}
	return map[string]any{"url": f.url, "headers": headers, "allow_private": f.private, "trust_annotations": f.trust}, nil
}

// reference is one in a header, as a config has it.
var reference = regexp.MustCompile(`\$\{(env|file):[^}]*\}`)

// printable says whether the command line may stand in the config of a client: it has no secrets.
func (f *wrapFlags) printable() error {
	for _, header := range f.headers {
		if name, value, _ := strings.Cut(header, ":"); !reference.MatchString(value) {
			return fmt.Errorf("--header %s: its value would stand in the config of the client: let it be ${env:NAME} or ${file:PATH}", strings.TrimSpace(name))
		}
	}
	return nil
}

// readEffects reads what the file says of tools: an effect each, or more.
func (f *wrapFlags) readEffects() (effects, tools map[string]any, err error) {
	if f.effects == "" {
		return nil, nil, nil
	}
	text, err := os.ReadFile(f.effects)
	if err != nil {
		return nil, nil, fmt.Errorf("--effects: %w", err)
	}
	var says map[string]any
	if err := yaml.Unmarshal(text, &says); err != nil {
		return nil, nil, fmt.Errorf("--effects %s: want TOOL: EFFECT, a line each: %w", f.effects, err)
	}
	effects, tools = map[string]any{}, map[string]any{}
	for name, what := range says {
		if _, more := what.(map[string]any); more {
			tools[name] = what
		} else {
			effects[name] = what
		}
	}
	return effects, tools, nil
}

// said is the command line of the wrapper as a client is to have it.
func (f *wrapFlags) said(cmd *cobra.Command, command []string) []string {
	args := []string{"wrap"}
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		if several, ok := flag.Value.(pflag.SliceValue); ok {
			for _, value := range several.GetSlice() {
				args = append(args, "--"+flag.Name+"="+value)
			}
		} else if flag.Name != "print-config" {
			args = append(args, "--"+flag.Name+"="+flag.Value.String())
		}
	})
	if f.url != "" {
		return args
	}
	return slices.Concat(args, []string{"--"}, command)
}

// printClientConfig prints what to put into the config of a client.
func printClientConfig(out io.Writer, client string, args []string, name string) error {
	type entry struct {
		Type    string   `json:"type,omitempty"`
		Command string   `json:"command"`
		Args    []string `json:"args"`
	}
	it := entry{Command: "sidecall", Args: args}
	list := "mcpServers"
	switch client {
	case "claude", "cursor":
	case "vscode":
		list, it.Type = "servers", "stdio"
	case "codex":
		list, err := json.Marshal(it.Args) // a list of texts is written alike in TOML
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "[mcp_servers.%s]\ncommand = %q\nargs = %s\n", name, it.Command, list)
		return nil
	default:
		return fail(exitUsage, fmt.Errorf("--print-config %q: want claude, vscode, cursor or codex", client))
	}
	return writeIndented(out, map[string]any{list: map[string]any{name: it}})
}

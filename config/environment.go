package config

import (
	"errors"
	"fmt"
	"os"
	"strings"
)

// MaxSecretBytes bounds a file named by ${file:...}.
const MaxSecretBytes = 1 << 20

// Environment is where references lead. Neither method's error may hold a
// value.
type Environment interface {
	// Getenv returns an environment variable, and whether it is set.
	Getenv(name string) (string, bool)
	// ReadFile returns the content of a regular file, bounded.
	ReadFile(path string) ([]byte, error)
}

type system struct{}

// System is the environment and the files of this process.
func System() Environment { return system{} }

func (system) Getenv(name string) (string, bool) { return os.LookupEnv(name) }

func (system) ReadFile(path string) ([]byte, error) { return ReadRegular(path, MaxSecretBytes) }

// expandRefs resolves the references in source; dir is where relative paths are seen
// from. The error never holds a value.
func expandRefs(source, dir string, env Environment) (*resolved, error) {
	if !strings.Contains(source, "${") {
		return &resolved{value: source, source: source}, nil
	}
	out := &resolved{source: source}
	var value strings.Builder
	rest := source
	for {
		i := strings.Index(rest, "${")
		if i < 0 {
			value.WriteString(rest)
			out.value = value.String()
			return out, nil
		}
		if i > 0 && rest[i-1] == '$' {
			value.WriteString(rest[:i-1] + "${")
			rest = rest[i+2:]
			continue
		}
		value.WriteString(rest[:i])
		inner, after, closed := strings.Cut(rest[i+2:], "}")
		if !closed {
			return nil, errors.New("a reference is not closed: expected ${env:NAME} or ${file:/path}; write $${ for a literal ${")
		}
		got, err := lookUp(inner, dir, env)
		if err != nil {
			return nil, err
		}
		value.WriteString(got)
		out.refs, out.values = append(out.refs, "${"+inner+"}"), append(out.values, got)
		rest = after
	}
}

// lookUp resolves what stands between ${ and }.
func lookUp(inner, dir string, env Environment) (string, error) {
	kind, name, _ := strings.Cut(inner, ":")
	switch {
	case env == nil:
		return "", errors.New("references are not resolved here")
	case kind == "env" && name != "":
		value, ok := env.Getenv(name)
		if !ok {
			return "", fmt.Errorf("environment variable %s is not set", shorten(name))
		}
		return value, nil
	case kind == "file" && name != "":
		data, err := env.ReadFile(from(dir, name))
		if err != nil {
			return "", fmt.Errorf("cannot read the file %s: %s", shorten(name), reason(err))
		}
		return strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r"), nil
	default:
		// Not quoted: this may be a password that happens to hold ${.
		return "", errors.New("unknown kind of reference: expected ${env:NAME} or ${file:/path}; write $${ for a literal ${")
	}
}

package config

import (
	"errors"
	"fmt"
	"os"
	"regexp"
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

// SecretName is the name of a variable or header whose value is a secret,
// however it is written in the config file.
var SecretName = regexp.MustCompile(`(?i)token|secret|key|passw|_pass|pass_|_pwd|pwd_|credential|auth|cookie`)

type system struct{}

// System is the environment and the files of this process.
func System() Environment { return system{} }

func (system) Getenv(name string) (string, bool) { return os.LookupEnv(name) }

func (system) ReadFile(path string) ([]byte, error) { return ReadRegular(path, MaxSecretBytes) }

// reference is a ${...} that may not be closed, or a $${ that stands for a ${.
var reference = regexp.MustCompile(`\$\$\{|\$\{[^}]*\}?`)

// expandRefs resolves the references in source; dir is where relative paths are seen
// from. The error never holds a value.
func expandRefs(source, dir string, env Environment) (*resolved, error) {
	out := &resolved{source: source}
	var err error
	out.value = reference.ReplaceAllStringFunc(source, func(ref string) string {
		inner, isReference := strings.CutPrefix(ref, "${")
		inner, closed := strings.CutSuffix(inner, "}")
		value := "${"
		switch {
		case err != nil || !isReference:
			return value
		case !closed:
			err = errors.New("a reference is not closed: expected ${env:NAME} or ${file:/path}; write $${ for a literal ${")
			return value
		}
		value, err = lookUp(inner, dir, env)
		out.refs = append(out.refs, Reference{ref, value})
		return value
	})
	if err != nil {
		return nil, err
	}
	return out, nil
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
		value := strings.TrimSuffix(strings.TrimSuffix(string(data), "\n"), "\r")
		if value == "" { // it is about to be written
			return "", fmt.Errorf("cannot read the file %s: it is empty", shorten(name))
		}
		return value, nil
	default:
		// Not quoted: this may be a password that happens to hold ${.
		return "", errors.New("unknown kind of reference: expected ${env:NAME} or ${file:/path}; write $${ for a literal ${")
	}
}

package cases

import (
	"errors"
	"os"
	"strings"

	"github.com/sidecall/sidecall/internal/config"
)

// placeholder stands for every secret.
const placeholder = "sidecall-stand-in"

// environment is where the references of a config lead while its cases run: no
// file is read, and no variable whose name says that it is secret. What is not set
// has something of the right form.
type environment struct{}

var _ config.Environment = environment{}

func (environment) Getenv(name string) (string, bool) {
	if value, ok := os.LookupEnv(name); ok && value != "" && !config.SecretName.MatchString(name) {
		return value, true
	}
	upper := strings.ToUpper(name)
	switch {
	case strings.Contains(upper, "URL"), strings.Contains(upper, "URI"), strings.Contains(upper, "ENDPOINT"):
		return "http://stand-in.invalid", true
	case strings.Contains(upper, "HOST"):
		return "stand-in.invalid", true
	case strings.Contains(upper, "PORT"):
		return "1", true
	default:
		return placeholder, true
	}
}

func (environment) ReadFile(path string) ([]byte, error) {
	if path == "" {
		return nil, errors.New("no file")
	}
	return []byte(placeholder), nil
}

package app

import (
	"fmt"
	"net/url"

	"github.com/sidecall/sidecall/internal/backend/httptool"
	"github.com/sidecall/sidecall/internal/config"
)

func entrustedHTTP(cfg config.Backend) entrusted {
	return entrusted{
		values: []map[string]config.Secret{cfg.HTTP.Headers, {"proxy": cfg.HTTP.Proxy}},
		texts:  []config.Text{cfg.HTTP.BaseURL},
	}
}

func buildHTTP(b blueprint) (built, error) {
	cfg := b.config.HTTP
	settings := httptool.Config{
		Name: b.name, BaseURL: cfg.BaseURL.Reveal(), Headers: config.RevealMap(cfg.Headers),
		AllowPrivate: cfg.AllowPrivate, MaxConns: cfg.MaxConns, DisableHTTP2: !cfg.HTTP2,
		ConnectTimeout: cfg.ConnectTimeout, IdleTimeout: cfg.IdleTimeout,
		HidePath: len(cfg.BaseURL.References()) > 0,
		Mask:     secretsOf(entrustedHTTP(b.config)).set().Replace,
	}
	if proxy := cfg.Proxy.Reveal(); proxy != "" {
		parsed, err := url.Parse(proxy)
		if err != nil {
			return built{}, fmt.Errorf("proxy: %w", err)
		}
		settings.Proxy = parsed
	}
	if cfg.TLS != nil {
		loaded, err := loadTLS(*cfg.TLS)
		if err != nil {
			return built{}, fmt.Errorf("tls: %w", err)
		}
		settings.TLS = loaded
	}
	made, err := httptool.New(settings)
	if err != nil {
		return built{}, err
	}
	return builtHTTP(made), nil
}

func builtHTTP(made *httptool.Backend) built {
	return built{made, func(name string, t config.Tool) error {
		if t.HTTP == nil { // of another kind, which was found wrong
			return nil
		}
		return made.Register(name, httpSpec(t.HTTP))
	}}
}

// httpAgain has its own specs of the tools: calls that began under another config
// send what that one says.
func httpAgain(kept built) built {
	return builtHTTP(kept.Backend.(*httptool.Backend).WithoutTools()) //nolint:forcetypeassert // it is what buildHTTP has made
}

// httpFiles are the files that buildHTTP reads.
func httpFiles(cfg config.Backend) []string {
	if cfg.HTTP.TLS == nil {
		return nil
	}
	return cfg.HTTP.TLS.Files()
}

func httpSpec(t *config.HTTPTool) httptool.Spec {
	spec := httptool.Spec{
		Method: t.Method, Path: t.Path, Query: t.Query, Headers: t.Headers,
		IdempotencyHeader: t.IdempotencyHeader,
	}
	if t.Body != nil {
		spec.Body = &httptool.Body{Arg: t.Body.Arg, Members: t.Body.Members}
	}
	return spec
}

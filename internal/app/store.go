package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/config"
	"github.com/sidecall/sidecall/internal/conversation"
	"github.com/sidecall/sidecall/internal/store/embedded"
	"github.com/sidecall/sidecall/internal/store/redisstore"
	"github.com/sidecall/sidecall/internal/telemetry"
)

// store keeps the records of calls, and conversations.
type store interface {
	dedupe.Store
	conversation.Store
}

// openStore opens the store that the config names. A Redis that cannot be
// reached is no error: the sidecar starts, says so on /readyz, and takes calls
// with an effect once Redis is there.
func openStore(cfg *config.Config, t *telemetry.Telemetry) (store, error) {
	switch cfg.Store.Kind() {
	case "redis":
		return openRedis(cfg.Store.Redis, t)
	case "memory":
		t.Logger.Warn("store", "warning", "the memory store forgets everything when the process ends: a call made before a restart can run again after it")
		return embedded.InMemory(embedded.Options{}), nil
	case "embedded":
		store, err := embedded.Open(cfg.Store.Embedded.Path.Reveal(), embedded.Options{MaxBytes: int64(cfg.Store.Embedded.MaxBytes), Log: t.Logger})
		if err != nil {
			return nil, fmt.Errorf("store: %w", err)
		}
		return store, nil
	default:
		return nil, fmt.Errorf("store: nothing here can open a store of the kind %q", cfg.Store.Kind())
	}
}

// checkStore loads the files that openRedis will load, so that what is wrong
// with them is told with its place, by check too.
func checkStore(cfg *config.Config, found *problems) {
	r := cfg.Store.Redis
	if r == nil || !r.TLS.On() {
		return
	}
	if _, err := loadTLS(r.TLS.TLS); err != nil {
		found.add(config.RuleBackend, err.Error(), "store", "redis", "tls")
	}
}

func openRedis(cfg *config.Redis, t *telemetry.Telemetry) (store, error) {
	options := redisstore.Options{
		Addrs: config.RevealList(cfg.Addrs), MasterName: cfg.MasterName.Reveal(), Cluster: cfg.Cluster,
		Username: cfg.Username.Reveal(), Password: cfg.Password.Reveal(), DB: cfg.DB,
		SentinelUsername: cfg.SentinelUsername.Reveal(), SentinelPassword: cfg.SentinelPassword.Reveal(),
		KeyPrefix: cfg.KeyPrefix.Reveal(), WaitReplicas: cfg.WaitReplicas, WaitTimeout: cfg.WaitTimeout,
		Timeout: cfg.Timeout, Log: t.Logger,
	}
	if cfg.TLS.On() {
		loaded, err := loadTLS(cfg.TLS.TLS)
		if err != nil {
			return nil, fmt.Errorf("store: redis: tls: %w", err)
		}
		options.TLS = loaded
	}
	store := redisstore.New(options)
	if err := checkRedis(store, t); err != nil {
		return nil, errors.Join(err, store.Close())
	}
	if err := t.Counter("sidecall.store.round_trips", "Round trips to the store.",
		func() int64 { return int64(store.RoundTrips()) }); err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return store, nil
}

// checkRedis refuses a Redis that may forget calls while it runs, or is too old; the store warns of
// one that forgets them when it restarts. One that does not answer now is
// looked at by /readyz and by the calls themselves.
func checkRedis(store *redisstore.Store, t *telemetry.Telemetry) error {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	err := store.Ping(ctx)
	if errors.Is(err, redisstore.ErrUnfit) {
		return fmt.Errorf("store: %w", err)
	}
	if err != nil {
		t.Logger.Warn("store", "warning", "Redis does not answer yet: calls with an effect are refused until it does", "error", err)
	}
	return nil
}

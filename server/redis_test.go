//go:build e2e

package server

import (
	"testing"

	"github.com/sidecall/sidecall/dedupe"
	"github.com/sidecall/sidecall/internal/store/redisstore"
	"github.com/sidecall/sidecall/test/testkit/redisserver"
)

func TestMain(m *testing.M) {
	stores["redis"] = func(t *testing.T) dedupe.Store {
		store := redisstore.New(redisstore.Options{Addrs: []string{redisserver.Start(t, redisserver.Options{}).Addr}})
		return store
	}
	m.Run()
}

package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"

	"github.com/sidecall/sidecall/dedupe"
)

// doubts are the servers that had too few replicas at their last exchange. What is
// claimed there is not acknowledged, and has to be given back: so one request at a time
// asks for a claim, until there are enough again, and the others are answered from
// their records, or refused.
type doubts struct {
	servers sync.Map // address → *atomic.Bool: a request asks
	some    atomic.Int32
}

// heard notes whether a server has had enough replicas.
func (d *doubts) heard(addr string, enough bool) {
	if enough && d.some.Load() == 0 {
		return
	}
	if enough {
		if _, doubted := d.servers.LoadAndDelete(addr); doubted {
			d.some.Add(-1)
		}
	} else if _, doubted := d.servers.LoadOrStore(addr, new(atomic.Bool)); !doubted {
		d.some.Add(1)
	}
}

// doubt is that about the server of a key; nil when there is none.
func (p *pipeline) doubt(ctx context.Context, key string) (asks *atomic.Bool) {
	if p.doubts.some.Load() == 0 {
		return nil
	}
	if found, doubted := p.doubts.servers.Load(p.router.lane(ctx, &command{key: key})); doubted {
		return found.(*atomic.Bool)
	}
	return nil
}

// known answers a request without asking for a claim.
func (s *Store) known(ctx context.Context, req dedupe.Request) (dedupe.Admission, error) {
	answer, err := dedupe.Recall(ctx, s, req, s.tooFew())
	if err != nil {
		return dedupe.Admission{}, fmt.Errorf("%w: %w", dedupe.ErrUnasked, err)
	}
	return answer, nil
}

func (s *Store) tooFew() error {
	return fmt.Errorf("redis: fewer than %d replicas have it", s.options.WaitReplicas)
}

// unsent reports that a command has not left this process.
func unsent(err error) bool {
	failed, ok := errors.AsType[*net.OpError](err)
	return ok && failed.Op == "dial"
}

package redisstore

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// Options of a Store; zero values mean the defaults. That they go together is for the config to say.
type Options struct {
	// Addrs is host:port of the server; of the Sentinels when MasterName is
	// set; of some of the nodes when Cluster is.
	Addrs []string
	// MasterName is the name under which the Sentinels know the master.
	MasterName string
	// Cluster says that the servers are a Redis Cluster.
	Cluster bool

	Username, Password                 string
	SentinelUsername, SentinelPassword string
	// DB is the database number; always 0 on a Cluster.
	DB int
	// TLS, when not nil, is spoken to every server.
	TLS *tls.Config
	// Dialer replaces the plain dialling of a connection.
	Dialer func(ctx context.Context, network, addr string) (net.Conn, error)

	// KeyPrefix begins every key, without braces, which decide its slot. Default "sidecall:".
	KeyPrefix string
	// WaitReplicas is how many replicas must have a claim or a settlement
	// before it counts. 0 means that a failover may forget the last ones.
	WaitReplicas int
	// WaitTimeout bounds the wait for them. Default 1 s.
	WaitTimeout time.Duration
	// Timeout bounds dialling, and one pipeline of commands. Default 2 s.
	Timeout time.Duration
	// CheckEvery is how often the server is asked whether it can still be
	// trusted to remember. Default 10 s.
	CheckEvery time.Duration
	// Log is told what an operator should know. Default: nobody.
	Log *slog.Logger

	onConnect func(context.Context, *redis.Conn) error // called for each new connection
}

// poolSize is one connection for the pipeline, and a few for checks, listings and tenures.
const poolSize = 5

func (o Options) withDefaults() Options {
	o.Addrs = slices.Clone(o.Addrs) // the client appends to it, and shuffles it
	o.KeyPrefix = cmp.Or(o.KeyPrefix, "sidecall:")
	o.WaitTimeout = cmp.Or(max(o.WaitTimeout, 0), time.Second)
	o.Timeout = cmp.Or(max(o.Timeout, 0), 2*time.Second)
	o.CheckEvery = cmp.Or(max(o.CheckEvery, 0), 10*time.Second)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	return o
}

func (o Options) tooFew() error {
	return fmt.Errorf("redis: fewer than %d replicas have it", o.WaitReplicas)
}

// silence ends the client library's log, which is one for the whole process. What
// it would say are the errors that the callers get anyway.
var silence = sync.OnceFunc(logging.Disable)

// client makes the client. It connects when it is first used.
func (o Options) client() redis.UniversalClient {
	silence()
	options := o.universal()
	if o.MasterName != "" {
		// The client library asks all Sentinels at once and waits for the last: one
		// that hangs uses up the time to connect to the master they have named. So
		// there is a second time, and a third; nothing has been sent.
		options.DialTimeout, options.DialerRetries, options.DialerRetryTimeout = o.share(), shares, 5*time.Millisecond
	}
	client := redis.NewUniversalClient(options)
	if cluster, ok := client.(*redis.ClusterClient); ok {
		cluster.OnNewNode(func(node *redis.Client) { node.AddHook(impatient{o.share()}) })
	}
	return client
}

// shares is in how many parts the time is divided where one server that hangs must not use
// it up for others.
const shares = 4

func (o Options) share() time.Duration { return max(o.Timeout/shares, 250*time.Millisecond) }

// impatient bounds the question where the slots of a Cluster are. The client library asks one
// node after another: one that hangs would use up the time for the others. And it believes one
// that knows of none, as a node says that belongs to no Cluster.
type impatient struct{ limit time.Duration }

func (impatient) DialHook(next redis.DialHook) redis.DialHook { return next }

func (impatient) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h impatient) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, c redis.Cmder) error {
		slots, ok := c.(*redis.ClusterSlotsCmd)
		if !ok {
			return next(ctx, c)
		}
		ctx, cancel := context.WithTimeout(ctx, h.limit)
		defer cancel()
		err := next(ctx, c)
		if err == nil && len(slots.Val()) == 0 {
			err = errors.New("the node knows of no slots")
		}
		return err
	}
}

func (o Options) universal() *redis.UniversalOptions {
	return &redis.UniversalOptions{
		Addrs:            o.Addrs,
		MasterName:       o.MasterName,
		IsClusterMode:    o.Cluster,
		Username:         o.Username,
		Password:         o.Password,
		SentinelUsername: o.SentinelUsername,
		SentinelPassword: o.SentinelPassword,
		DB:               o.DB,
		TLSConfig:        o.TLS,
		Dialer:           o.Dialer,
		OnConnect:        o.onConnect,
		ClientName:       "sidecall",
		DisableIdentity:  true,
		Protocol:         2,

		// There is one retry layer, and it is ours (persist).
		MaxRetries:    -1,
		MaxRedirects:  -1,
		DialerRetries: 1,
		// Without this the deadline of a context bounds no read and no write.
		ContextTimeoutEnabled: true,
		DialTimeout:           o.Timeout,
		ReadTimeout:           o.Timeout + o.WaitTimeout,
		WriteTimeout:          o.Timeout,

		PoolSize:         poolSize,
		PipelinePoolSize: -1,

		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}

package config

import (
	"reflect"
	"slices"
	"strings"
	"time"
)

// Store says where the records of calls are kept: exactly one of its fields is
// not nil.
type Store struct {
	Embedded *Embedded `yaml:"embedded" one:"store" doc:"One local file, written and synced before a tool is called."`
	Redis    *Redis    `yaml:"redis" one:"store" doc:"Redis: standalone, Sentinel (master_name) or Cluster (cluster)."`
	Memory   *Memory   `yaml:"memory" one:"store" doc:"Nothing is kept beyond the process, and no more than 1GiB in it: for tests only."`
}

// Kind is embedded, redis or memory.
func (s Store) Kind() string { return append(kindsOf(s), "embedded")[0] }

// kindsOf are the keys of a struct that is there in one of several kinds.
func kindsOf(of any) []string {
	v := reflect.ValueOf(of)
	shape := shapeOf(v.Type())
	return slices.DeleteFunc(slices.Concat(shape.groups...), func(key string) bool {
		return v.FieldByIndex(shape.byKey[key].index).IsZero()
	})
}

// Embedded is the store in one local file.
type Embedded struct {
	Path     Path  `yaml:"path" doc:"The file." default:"./sidecall.db" format:"nonempty"`
	MaxBytes Bytes `yaml:"max_bytes" doc:"Largest size of the file. A third of it, 256MiB at the most, is for what is kept for ReadOutput, where older outputs give way to new ones. When there is no room the rest of a result is not kept, which the result says; then calls with an effect are refused, as on a full disk." default:"8GiB" min:"64MiB" max:"1024GiB"`
}

// Memory is the store that forgets.
type Memory struct{}

// Redis is the store on Redis 7 or later.
type Redis struct {
	Addrs      []Text `yaml:"addrs" doc:"host:port of the server, of the Sentinels or of some Cluster nodes." required:"true" format:"addr" items:"1"`
	MasterName Text   `yaml:"master_name" doc:"Name of the master as the Sentinels know it; addrs are then the Sentinels."`
	Cluster    bool   `yaml:"cluster" doc:"The servers are a Redis Cluster."`
	Username   Text   `yaml:"username" doc:"ACL user."`
	Password   Secret `yaml:"password" doc:"Password; better a reference such as ${env:REDIS_PASSWORD} than the value."`
	// The Sentinels may want credentials of their own.
	SentinelUsername Text   `yaml:"sentinel_username" with:"master_name" doc:"ACL user of the Sentinels."`
	SentinelPassword Secret `yaml:"sentinel_password" with:"master_name" doc:"Password of the Sentinels; better a reference than the value."`

	DB           int           `yaml:"db" doc:"Database number; always 0 on a Cluster." min:"0" max:"1000000"`
	TLS          *RedisTLS     `yaml:"tls" doc:"TLS to Redis. Off when absent or empty."`
	WaitReplicas int           `yaml:"wait_replicas" doc:"Replicas that must have a claim before it counts." min:"0" max:"100"`
	WaitTimeout  time.Duration `yaml:"wait_timeout" doc:"How long to wait for these replicas. A claim that too few have by then is refused." default:"1s" min:"1ms" max:"1m"`
	Timeout      time.Duration `yaml:"timeout" doc:"Time to connect, and for one exchange with Redis, the wait for replicas not included." default:"2s" min:"10ms" max:"1m"`
	KeyPrefix    Text          `yaml:"key_prefix" doc:"Prefix of every key." default:"sidecall:"`
}

// check looks for what the store would refuse at the start.
func (r Redis) check(w within) {
	switch {
	case r.Cluster && r.MasterName.Reveal() != "":
		w.in("cluster").bad("cluster and master_name exclude each other: expected cluster for a Redis Cluster, or master_name for Sentinel")
	case r.Cluster && r.DB != 0:
		w.in("db").bad("a Redis Cluster has only database 0")
	}
	if len(r.Addrs) > 1 && !r.Cluster && !w.in("master_name").written() {
		w.in("addrs").bad("several addresses are Sentinels or nodes of a Cluster: expected master_name or cluster with them, or one address")
	}
	if strings.ContainsAny(r.KeyPrefix.Reveal(), "{}") {
		w.in("key_prefix").bad("braces decide the slot of a key: expected a prefix without { and }")
	}
}

// TLS is what a TLS client needs beyond the system's roots.
type TLS struct {
	CA                 Path `yaml:"ca" doc:"PEM file of the certificate authorities to trust instead of the system's."`
	Cert               Path `yaml:"cert" with:"key" doc:"PEM file of the client certificate."`
	Key                Path `yaml:"key" with:"cert" doc:"PEM file of the client certificate's key."`
	ServerName         Text `yaml:"server_name" doc:"Name to verify in the server's certificate instead of the host's."`
	InsecureSkipVerify bool `yaml:"insecure_skip_verify" doc:"Do not verify the server's certificate. For tests only."`
}

// Files are the PEM files that it names.
func (t TLS) Files() []string {
	return slices.DeleteFunc([]string{t.CA.Reveal(), t.Cert.Reveal(), t.Key.Reveal()}, func(path string) bool { return path == "" })
}

// RedisTLS is TLS with a switch: a Redis address does not say whether it is
// spoken over TLS.
type RedisTLS struct {
	Enabled *bool `yaml:"enabled" doc:"Speak TLS. Without this key: when any other key of the block is there."`
	TLS     `yaml:",inline"`
}

func (t RedisTLS) check(w within) {
	if t.Enabled == nil && !t.On() {
		w.warn("an empty tls block leaves the connection unencrypted; write tls: {enabled: true} for TLS with the system's roots")
	}
}

// On reports whether TLS is spoken.
func (t *RedisTLS) On() bool {
	switch {
	case t == nil:
		return false
	case t.Enabled != nil:
		return *t.Enabled
	default:
		return t.TLS != TLS{}
	}
}

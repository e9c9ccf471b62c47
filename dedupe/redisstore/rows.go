package redisstore

import (
	"fmt"
	"slices"
	"time"

	"github.com/sidecall/sidecall/dedupe"
)

// rows are those of one step on a server, as they are believed to be: a step is decided
// here, and done there by step.lua if all that it has read is true. It says what is true
// otherwise, and the step is decided again.
type rows struct {
	lane *lane
	// said is what the server has said of rows when it was asked last, saidLogs of logs.
	said     []row
	saidLogs []log
	saidAt   time.Time
	// now is at the earliest the time at which it is done; spread is how much later that
	// may be already, by what is known of the server's clock.
	now       time.Time
	spread    time.Duration
	tolerance time.Duration

	read   []row
	others []string // keys that are only written
	writes []any    // as step.lua takes them
	logs   []string // what is read when it is done
	into   *dedupe.Logs
	beside []any // a command of its own, once it is done
}

// row is a text under a key; empty where there is none.
type row struct{ key, text string }

// log is a log as it was read.
type log struct {
	key     string
	entries [][]byte
}

// other is the number of a key that is only written, among those.
type other int

// How much later than it was decided a step may be done, beside what is not known of the
// server's clock. A lease is longer by that, so of short ones it is a part.
const (
	mostTolerance  = time.Second
	leastTolerance = 20 * time.Millisecond
)

func (r *rows) Now() time.Time { return r.now }

func (r *rows) Lease(atLeast time.Duration) time.Duration {
	r.tolerance = r.spread + max(leastTolerance, min(atLeast/4, mostTolerance))
	return atLeast + r.tolerance
}

// get returns what stands under a key, as far as is known.
func (r *rows) get(key string) string {
	return r.read[r.at(key)].text
}

// at is the place of a row among those that were read; it is read now if it was not.
func (r *rows) at(key string) int {
	for i := range r.read {
		if r.read[i].key == key {
			return i
		}
	}
	text, known := r.lane.known(key)
	for i := 0; !known && i < len(r.said); i++ {
		if r.said[i].key == key {
			text, known = r.said[i].text, true
		}
	}
	r.read = append(r.read, row{key, text})
	return len(r.read) - 1
}

// number is that of a key which is only written.
func (r *rows) number(key string) other {
	for i := range r.others {
		if r.others[i] == key {
			return other(i)
		}
	}
	r.others = append(r.others, key)
	return other(len(r.others) - 1)
}

// set stores a text under a key that was read.
func (r *rows) set(key, text string, keep time.Duration) {
	if text == "" {
		r.writes = append(r.writes, "d", r.at(key)+1)
	} else if keep == 0 {
		r.writes = append(r.writes, "k", r.at(key)+1, text)
	} else {
		r.writes = append(r.writes, "s", r.at(key)+1, text, keep.Milliseconds())
	}
	r.lane.expect(key, text)
}

func (r *rows) Call(key dedupe.Key) (dedupe.Stored, error) {
	name := recordKey(r.lane.options.KeyPrefix, key)
	text := r.get(name)
	if text == "" {
		return dedupe.Stored{}, nil
	}
	stored, err := dedupe.DecodeSealed([]byte(text))
	return stored, named(name, err)
}

func (r *rows) SetCall(key dedupe.Key, record dedupe.Stored) error {
	name := recordKey(r.lane.options.KeyPrefix, key)
	waited := marked(r.get(name))
	r.set(name, string(record.AppendSealed(nil)), record.Retention)
	if waited && record.State != dedupe.Claimed {
		r.writes = append(r.writes, "p", r.at(name)+1, settledChannel(r.lane.options.KeyPrefix))
	}
	return nil
}

func (r *rows) Awaited(key dedupe.Key) {
	if name := recordKey(r.lane.options.KeyPrefix, key); !marked(r.get(name)) {
		r.writes = append(r.writes, "w", r.at(name)+1)
		r.lane.forget(name)
	}
}

// sheetName is the key of a sheet.
func (r *rows) sheetName(name dedupe.Sheet) (string, error) {
	of := dedupe.Key{Tenant: name.Tenant, Conversation: name.Conversation}
	if name.Kind == dedupe.TallySheet {
		return sheetKey(r.lane.options.KeyPrefix, "budget/", of, name.Name), nil
	}
	whole := name.Conversation == ""
	if whole && r.lane.options.Cluster {
		// They are in another slot than the records of its conversations.
		return "", fmt.Errorf("%w: effects of a whole tenant on a Redis Cluster", dedupe.ErrInvalid)
	}
	return effectKey(r.lane.options.KeyPrefix, of, &dedupe.EffectKey{Print: [32]byte([]byte(name.Name)), WholeTenant: whole}), nil
}

func (r *rows) Sheet(name dedupe.Sheet) ([]byte, error) {
	key, err := r.sheetName(name)
	if err != nil {
		return nil, err
	}
	if text := r.get(key); text != "" {
		return []byte(text), nil
	}
	return nil, nil
}

func (r *rows) SetSheet(name dedupe.Sheet, body []byte, keep time.Duration) error {
	key, err := r.sheetName(name)
	if err == nil {
		r.set(key, string(body), keep)
	}
	return err
}

func (r *rows) Append(key dedupe.Key, a dedupe.Append, keep time.Duration) error {
	name := sheetKey(r.lane.options.KeyPrefix, "log/", key, a.Log)
	r.writes = append(r.writes, "l", r.number(name), a.Entry, a.Keep, keep.Milliseconds())
	return nil
}

func (r *rows) Logs(key dedupe.Key, names []string, into *dedupe.Logs) error {
	r.into = into
	for _, name := range names {
		r.logs = append(r.logs, sheetKey(r.lane.options.KeyPrefix, "log/", key, name))
	}
	return nil
}

// Keep implements dedupe.Rows. On a Cluster the slot of an output is another than that of
// its call: it is kept by a command that is sent after it.
func (r *rows) Keep(tenant string, output *dedupe.Output) error {
	name := outputKey(r.lane.options.KeyPrefix, tenant, output.Ref)
	text := encodeOutput(output, r.now)
	if r.lane.options.Cluster {
		r.beside = []any{"set", name, text, "px", output.TTL.Milliseconds()}
		return nil
	}
	r.writes = append(r.writes, "s", r.number(name), text, output.TTL.Milliseconds())
	return nil
}

// words are the command that does the step.
func (r *rows) words() []any {
	words := make([]any, 0, 6+2*len(r.read)+len(r.others)+len(r.writes))
	words = append(words, "evalsha", stepScript.hash, len(r.read)+len(r.others))
	for i := range r.read {
		words = append(words, r.read[i].key)
	}
	for _, key := range r.others {
		words = append(words, key)
	}
	now := dedupe.Millis(r.now)
	words = append(words, now, now+r.tolerance.Milliseconds(), len(r.read))
	for i := range r.read {
		words = append(words, r.read[i].text)
	}
	for _, w := range r.writes {
		if n, ok := w.(other); ok {
			w = len(r.read) + int(n) + 1
		}
		words = append(words, w)
	}
	return words
}

// sure reports that what was read is what the server has said at one instant: what was
// decided by it is the answer, unless it changes something.
func (r *rows) sure() bool {
	for _, read := range r.read {
		if !slices.Contains(r.said, read) {
			return false
		}
	}
	for _, key := range r.logs {
		if !slices.ContainsFunc(r.saidLogs, func(l log) bool { return l.key == key }) {
			return false
		}
	}
	return len(r.writes) == 0
}

// tell fills in the logs that were asked for.
func (r *rows) tell() {
	if len(r.logs) == 0 {
		return
	}
	*r.into = make(dedupe.Logs, len(r.logs))
	for i, key := range r.logs {
		at := slices.IndexFunc(r.saidLogs, func(l log) bool { return l.key == key })
		(*r.into)[i] = r.saidLogs[at].entries
	}
}

package dedupe

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/sidecall/sidecall/internal/tool"
)

// Receipt is what a settlement has made of a call that has an effect: a line of the chain of
// its conversation. Each line has the hash of the one before it, so that none is changed or
// left out unseen by who knows a later one.
type Receipt struct {
	N           int64     `json:"n"`                     // counts the lines, from 1
	Before      string    `json:"before,omitempty"`      // the hash of the line before; of the first: none
	BeforeUntil time.Time `json:"before_until,omitzero"` // until when that is kept
	Turn        string    `json:"turn_id,omitempty"`     // of the call
	ID          string    `json:"tool_use_id"`           // likewise
	Tool        string    `json:"tool_name"`             // likewise
	Outcome
	At    time.Time `json:"at"`    // when it was settled, by the store's clock
	Until time.Time `json:"until"` // until when the line, and the record of the call, are kept at least
}

// Outcome is what became of a call, as a receipt has it.
type Outcome struct {
	Print  string `json:"fingerprint"`
	State  string `json:"state"`
	Epoch  int64  `json:"epoch"`
	Result string `json:"result,omitempty"` // the hash of its result; none where it has none
}

// Outcome is that of a call by its record.
func (r *Record) Outcome() Outcome {
	return Outcome{hex.EncodeToString(r.Fingerprint[:]), r.State.String(), r.Epoch, hashOf(r.Result)}
}

// Line is a receipt as it is kept.
type Line struct {
	N    int64
	Body string // empty where it is not kept
}

// Hash is what the line after it has of it.
func (l Line) Hash() string { return hashOf(l.Body) }

// Receipt reads the line; the error wraps ErrCorrupt.
func (l Line) Receipt() (r Receipt, err error) {
	if err = json.Unmarshal([]byte(l.Body), &r); err == nil && r.N != l.N {
		err = fmt.Errorf("it is line %d", r.N)
	}
	if err != nil {
		return r, fmt.Errorf("%w: receipt %d: %w", ErrCorrupt, l.N, err)
	}
	return r, nil
}

// Head is the end of a chain.
type Head struct {
	Count int64     `json:"count"` // of its lines, also of those that are forgotten
	Hash  string    `json:"hash"`  // of the last one
	At    time.Time `json:"at"`    // when that was written
	Until time.Time `json:"until"` // until when it is kept
}

// Chain is a part of the receipts of a conversation.
type Chain struct {
	Head
	Now   time.Time // the store's
	Lines []Line    // down from the one that was asked for
}

// ChainPage is how many lines one look reads at the most.
const ChainPage = 64

// hashOf is the hash of what is kept of a call or a line; none of nothing.
func hashOf[T string | []byte](body T) string {
	if len(body) == 0 {
		return ""
	}
	sum := sha256.Sum256([]byte(body))
	return hex.EncodeToString(sum[:])
}

// Receipted reports that a record is one that its settlement has left a receipt of: an owner, or
// somebody who has decided about it, has said what became of its effect.
func (r *Record) Receipted() bool {
	return r.Effect != tool.ReadOnly && (r.State == Done || r.State == Unknown && len(r.Result) > 0)
}

// receiptKey is where a line of a conversation is kept; the head for 0.
func receiptKey(key *tool.CallID, n int64) ValueKey {
	return ValueKey{key.Tenant, key.Conversation, ReceiptValue, strconv.FormatInt(n, 10)}
}

func decodeHead(body string) (h Head, err error) {
	if body != "" {
		err = json.Unmarshal([]byte(body), &h)
	}
	if err != nil || h.Count < 0 {
		return Head{}, fmt.Errorf("%w: the head of the receipts is %q", ErrCorrupt, body)
	}
	return h, nil
}

// receipt adds a line for a record that was settled.
func (s *settling) receipt(before State) {
	next := &s.next
	decided := next.State == Done || next.State == Unknown || before == Unknown
	if !s.settlement.Receipt || s.Call.Conversation == "" || next.Effect == tool.ReadOnly || !decided {
		return
	}
	head := read(s.rows, receiptKey(&s.Call, 0), decodeHead)
	line := Receipt{
		N: head.Count + 1, Before: head.Hash, BeforeUntil: head.Until, Turn: s.Call.Turn, ID: s.Call.ID, Tool: next.Tool,
		Outcome: next.Outcome(), At: s.now.UTC(), Until: s.now.UTC().Add(s.keep),
	}
	body, _ := json.Marshal(line) // texts, numbers and instants always can be
	s.rows.SetValue(receiptKey(&s.Call, line.N), string(body), s.keep)
	after, _ := json.Marshal(Head{Count: line.N, Hash: hashOf(body), At: line.At, Until: line.Until}) // likewise
	s.rows.SetValue(receiptKey(&s.Call, 0), string(after), s.keep)
}

// chainOf reads the receipts of the conversation of a call, down from one on.
func chainOf(rows Rows, key *tool.CallID, from int64) Chain {
	c := Chain{Now: rows.Now().UTC(), Head: read(rows, receiptKey(key, 0), decodeHead)}
	if from == 0 || from > c.Count {
		from = c.Count
	}
	for n := from; n > 0 && n > from-ChainPage; n-- {
		c.Lines = append(c.Lines, Line{n, rows.Value(receiptKey(key, n))})
	}
	return c
}

package schema

import (
	"math/big"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// bounds are what a number must keep to.
type bounds struct {
	low, high         *big.Rat
	lowOpen, highOpen bool
	step              *big.Rat
}

func boundsOf(list []*jsonschema.Schema, integer bool) bounds {
	var b bounds
	if integer {
		b.step = big.NewRat(1, 1)
	}
	for _, s := range list {
		b.raise(s.Minimum, false)
		b.raise(s.ExclusiveMinimum, true)
		b.lower(s.Maximum, false)
		b.lower(s.ExclusiveMaximum, true)
		if s.MultipleOf != nil {
			b.step = s.MultipleOf
		}
	}
	return b
}

func (b *bounds) raise(to *big.Rat, open bool) {
	if to != nil && (b.low == nil || to.Cmp(b.low) > 0 || to.Cmp(b.low) == 0 && open) {
		b.low, b.lowOpen = to, open
	}
}

func (b *bounds) lower(to *big.Rat, open bool) {
	if to != nil && (b.high == nil || to.Cmp(b.high) < 0 || to.Cmp(b.high) == 0 && open) {
		b.high, b.highOpen = to, open
	}
}

// numbersNear lists numbers that may keep to b: those near the one received,
// then the ends, then small ones. The caller checks them.
func numbersNear(received *big.Rat, b bounds) []any {
	var out []any
	add := func(r *big.Rat) { out = append(out, toNumber(r)) }
	around := func(r *big.Rat) {
		if b.step == nil {
			add(r)
			return
		}
		down := floorTo(r, b.step)
		up := new(big.Rat).Add(down, b.step)
		if new(big.Rat).Sub(r, down).Cmp(new(big.Rat).Sub(up, r)) <= 0 {
			down, up = up, down // nearest last in, first out below
		}
		add(up)
		add(down)
	}
	if received != nil && (b.low == nil || received.Cmp(b.low) > 0) && (b.high == nil || received.Cmp(b.high) < 0) {
		around(received)
	}
	ends := func(end *big.Rat, open bool, inward int64) {
		if end == nil {
			return
		}
		if !open {
			around(end)
		}
		step := big.NewRat(1, 1)
		if b.step != nil {
			step = b.step
		}
		move := new(big.Rat).Mul(step, big.NewRat(inward, 1))
		around(new(big.Rat).Add(end, move))
		around(new(big.Rat).Add(end, move.Mul(move, big.NewRat(1, 100))))
	}
	if received != nil && b.high != nil && received.Cmp(b.high) >= 0 {
		ends(b.high, b.highOpen, -1)
	}
	ends(b.low, b.lowOpen, 1)
	if b.low == nil {
		around(big.NewRat(1, 1))
		add(new(big.Rat))
	}
	ends(b.high, b.highOpen, -1)
	if b.low != nil && b.high != nil {
		middle := new(big.Rat).Add(b.low, b.high)
		around(middle.Quo(middle, big.NewRat(2, 1)))
	}
	return out
}

// floorTo is the largest multiple of step that is not above r.
func floorTo(r, step *big.Rat) *big.Rat {
	q := new(big.Rat).Quo(r, step)
	n := new(big.Int).Div(q.Num(), q.Denom()) // Euclidean: floor, as the denominator is positive
	return new(big.Rat).Mul(new(big.Rat).SetInt(n), step)
}
